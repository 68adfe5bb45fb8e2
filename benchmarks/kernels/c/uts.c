/* The UTS kernel of uts/vector.py, the same algorithm on the same queue, for a C compiler to do its best. */
#include <stdint.h>

#ifndef LANES
#define LANES 16
#endif
enum { STATE = 5, LOW = 5, HIGH = 6, FIELDS = 8, STRIDE = 2 * LANES };

typedef uint32_t vector __attribute__((vector_size(4 * LANES)));
typedef uint32_t loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline vector rotate(vector x, int bits) { return x << bits | x >> (32 - bits); }

static inline vector splat(uint32_t word) { return word - (vector){0}; }

static void hash(const uint32_t *source, uint32_t *target) {
    static const uint32_t initial[STATE] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    static const uint32_t rounds[4] = {0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6};
    vector w[16];
    for (int i = 0; i < 16; i++) w[i] = splat(0);
    for (int i = 0; i <= STATE; i++) w[i] = *(const loose *)(source + STRIDE * i);
    w[6] = splat(0x80000000);
    w[15] = splat(192);
    vector a = splat(initial[0]), b = splat(initial[1]), c = splat(initial[2]), d = splat(initial[3]),
           e = splat(initial[4]);
#pragma GCC unroll 80
    for (int i = 0; i < 80; i++) {
        vector word = w[i & 15];
        if (i >= 16)
            word = w[i & 15] = rotate(w[(i - 3) & 15] ^ w[(i - 8) & 15] ^ w[(i - 14) & 15] ^ word, 1);
        vector mixed = i < 20               ? d ^ (b & (c ^ d))
                       : i >= 40 && i < 60 ? (b & c) | (d & (b | c))
                                           : b ^ c ^ d;
        vector total = rotate(a, 5) + mixed + (e + rounds[i / 20] + word);
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = total;
    }
    vector digest[STATE] = {a + initial[0], b + initial[1], c + initial[2], d + initial[3], e + initial[4]};
    for (int i = 0; i < STATE; i++) *(loose *)(target + LANES * i) = digest[i];
}

static inline int64_t children_of(uint32_t word, const uint32_t *thresholds, const uint8_t *guess) {
    uint32_t value = word & 0x7FFFFFFF;
    int64_t children = guess[value >> 20];
    while (value >= thresholds[children + 1]) children++;
    return children;
}

static inline int64_t choose_level(const int64_t *pending, int64_t levels) {
    int64_t highest = 0;
    for (int64_t level = 1; level < levels; level++) {
        if (pending[level] >= LANES) return level;
        if (pending[level] > 0) highest = level;
    }
    return highest;
}

static inline int64_t load_lanes(uint32_t (*rows)[FIELDS], int64_t *count, uint32_t *source) {
    int64_t lanes = 0;
    vector ramp;
    for (uint32_t i = 0; i < LANES; i++) ramp[i] = i;
    while (lanes < LANES && *count > 0) {
        uint32_t *row = rows[*count - 1];
        int64_t low = row[LOW], high = row[HIGH];
        int64_t taken = high - low < LANES - lanes ? high - low : LANES - lanes;
        for (int i = 0; i < STATE; i++) *(loose *)(source + STRIDE * i + lanes) = splat(row[i]);
        *(loose *)(source + STRIDE * STATE + lanes) = (uint32_t)(high - 1) - ramp;
        lanes += taken;
        row[HIGH] = (uint32_t)(high - taken);
        *count -= taken == high - low;
    }
    return lanes;
}

/* queue: [levels][capacity][FIELDS]; sums: nodes and hashes. */
void uts_expand(uint32_t *queue, int64_t *entries, int64_t levels, int64_t capacity, const uint32_t *thresholds,
                const uint8_t *guess, int64_t budget, int64_t *sums) {
    _Alignas(64) uint32_t source[(STATE + 1) * STRIDE];
    _Alignas(64) uint32_t hashes[STATE * LANES];
    int64_t pending[levels], nodes = 0, hashed = 0;
    for (int64_t level = 0; level < levels; level++) {
        const uint32_t *row = queue + level * capacity * FIELDS;
        pending[level] = 0;
        for (int64_t i = 0; i < entries[level]; i++, row += FIELDS) pending[level] += row[HIGH] - row[LOW];
    }
    for (int64_t level; nodes < budget && (level = choose_level(pending, levels)) > 0;) {
        uint32_t(*rows)[FIELDS] = (void *)(queue + level * capacity * FIELDS);
        int64_t lanes = load_lanes(rows, &entries[level], source), made = 0;
        pending[level] -= lanes;
        hash(source, hashes);
        if (level == 2) {
            for (int64_t lane = 0; lane < lanes; lane++)
                made += children_of(hashes[(STATE - 1) * LANES + lane], thresholds, guess);
            nodes += made;
        } else {
            uint32_t(*below)[FIELDS] = (void *)(queue + (level - 1) * capacity * FIELDS);
            int64_t end = entries[level - 1];
            for (int64_t lane = 0; lane < lanes; lane++) {
                int64_t children = children_of(hashes[(STATE - 1) * LANES + lane], thresholds, guess);
                for (int i = 0; i < STATE; i++) below[end][i] = hashes[i * LANES + lane];
                below[end][LOW] = 0;
                below[end][HIGH] = (uint32_t)children;
                end += children > 0;
                made += children;
            }
            entries[level - 1] = end;
            pending[level - 1] += made;
        }
        nodes += lanes;
        hashed += lanes;
    }
    sums[0] = nodes;
    sums[1] = hashed;
}
