"""The 2016 paper: users who estimate well wait less under the penalty scheduling policy (PSP)."""
