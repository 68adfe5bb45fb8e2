/* N-Queens by plain recursion over the rows, with bits and without symmetry. */
#include <stdint.h>

static int64_t solve(uint32_t full, uint32_t columns, uint32_t left, uint32_t right) {
    if (columns == full) return 1;
    int64_t solutions = 0;
    for (uint32_t free = full & ~(columns | left | right); free; free &= free - 1) {
        uint32_t bit = free & -free;
        solutions += solve(full, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    return solutions;
}

int64_t nqueens_solve(int64_t size) { return solve((1u << size) - 1, 0, 0, 0); }
