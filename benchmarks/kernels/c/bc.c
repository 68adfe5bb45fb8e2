/* Betweenness centrality as published: one source after the other, a queue, and one pass back over it.
   Source: Brandes, "A faster algorithm for betweenness centrality", J. Math. Sociology 25(2), 2001. */
#include <stdint.h>
#include <stdlib.h>

/* Adds the dependencies of all vertices on the sources to scores; returns 0, or 1 if there is not enough memory. */
int bc_add(int64_t vertices, const int64_t *starts, const int32_t *heads, const uint32_t *sources, int64_t count,
           double *scores) {
    double *paths = malloc(vertices * sizeof *paths), *through = malloc(vertices * sizeof *through);
    int32_t *depth = malloc(vertices * sizeof *depth), *queue = malloc(vertices * sizeof *queue);
    int failed = !paths || !through || !depth || !queue;
    for (int64_t k = 0; k < count && !failed; k++) {
        for (int64_t v = 0; v < vertices; v++) depth[v] = -1, paths[v] = 0.0;
        int64_t begin = 0, end = 0;
        queue[end++] = sources[k];
        depth[sources[k]] = 0;
        paths[sources[k]] = 1.0;
        while (begin < end) {
            int32_t v = queue[begin++], next = depth[v] + 1;
            for (int64_t e = starts[v]; e < starts[v + 1]; e++) {
                int32_t w = heads[e];
                if (depth[w] < 0) depth[w] = next, queue[end++] = w;
                if (depth[w] == next) paths[w] += paths[v];
            }
        }
        while (--end > 0) {
            int32_t v = queue[end], next = depth[v] + 1;
            double shares = 0.0;
            for (int64_t e = starts[v]; e < starts[v + 1]; e++)
                if (depth[heads[e]] == next) shares += (1.0 + through[heads[e]]) / paths[heads[e]];
            through[v] = paths[v] * shares;
            scores[v] += through[v];
        }
    }
    free(paths), free(through), free(depth), free(queue);
    return failed;
}
