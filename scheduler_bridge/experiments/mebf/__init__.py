"""The 2024 paper on malleable EASY backfilling (MEBF): sizes, loads, scalabilities, overheads, shares, model error."""
