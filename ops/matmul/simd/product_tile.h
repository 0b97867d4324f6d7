/* Template of matrix products for one element type not supported by ops/matmul/simd/gemm.h. Included once per type,
 * with XCVM_ELEMENT defined; undefines it and defines multiply_ELEMENT. */
#define XCVM_NAMED_(name, type) name##_##type
#define XCVM_NAMED(name, type) XCVM_NAMED_(name, type)
#define NAMED(name) XCVM_NAMED(name, XCVM_ELEMENT)
#define LANES ((size_t)4 * XCVM_LANES / sizeof(XCVM_ELEMENT))

typedef XCVM_ELEMENT NAMED(lanes) __attribute__((vector_size(4 * XCVM_LANES)));
typedef XCVM_ELEMENT NAMED(lanes_at)
    __attribute__((vector_size(4 * XCVM_LANES), aligned(sizeof(XCVM_ELEMENT)), may_alias));

/* y = a * b, or added to y, for `rows` rows of a and `vectors` vectors of columns of b, of which `depth` rows begin at
 * `b`, `stride` apart. Only the first `columns` are stored. */
XCVM_INLINE void NAMED(tile)(const xcvm_product_piece *piece, const XCVM_ELEMENT *a, const XCVM_ELEMENT *b,
                             size_t stride, size_t depth, XCVM_ELEMENT *y, size_t columns, bool add, const int rows,
                             const int vectors)
{
    NAMED(lanes) sum[TILE_ROWS][TILE_VECTORS];
    const size_t row = piece->a_row, column = piece->a_column, y_row = piece->n;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++)
            sum[i][j] = (NAMED(lanes)){0};
    for (size_t p = 0; p < depth; p++, a += column, b += stride) {
        NAMED(lanes) v[TILE_VECTORS];
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++)
            v[j] = *(const NAMED(lanes_at) *)(b + (size_t)j * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
            for (int j = 0; j < vectors; j++)
                sum[i][j] += a[(size_t)i * row] * v[j];
    }
    if (columns == (size_t)vectors * LANES) {
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
            for (int j = 0; j < vectors; j++) {
                NAMED(lanes_at) *to = (NAMED(lanes_at) *)(y + (size_t)i * y_row + (size_t)j * LANES);
                NAMED(lanes) v = sum[i][j];
                if (add)
                    v += *to;
                *to = v;
            }
        return;
    }
    for (int i = 0; i < rows; i++) {
        XCVM_ELEMENT whole[TILE_VECTORS * LANES], *to = y + (size_t)i * y_row;
        memcpy(whole, sum[i], (size_t)vectors * sizeof sum[i][0]);
        for (size_t j = 0; j < columns; j++)
            to[j] = (XCVM_ELEMENT)(add ? to[j] + whole[j] : whole[j]);
    }
}

/* Multiplies all rows of the piece by a panel. */
XCVM_INLINE void NAMED(panel)(const xcvm_product_piece *piece, const XCVM_ELEMENT *a, const XCVM_ELEMENT *b,
                              size_t stride, size_t depth, XCVM_ELEMENT *y, size_t columns, bool add, const int vectors)
{
    size_t i = 0;
    for (; i + TILE_ROWS <= piece->m; i += TILE_ROWS)
        NAMED(tile)(piece, a + i * piece->a_row, b, stride, depth, y + i * piece->n, columns, add, TILE_ROWS, vectors);
    for (; i < piece->m; i++)
        NAMED(tile)(piece, a + i * piece->a_row, b, stride, depth, y + i * piece->n, columns, add, 1, vectors);
}

/* Packs rows [p, p + depth) of `columns` columns of b from j, padded with zeros to whole vectors. */
static void NAMED(pack)(const xcvm_product_piece *piece, size_t p, size_t depth, size_t j, size_t columns, size_t width,
                        XCVM_ELEMENT *panel)
{
    const XCVM_ELEMENT *b = (const XCVM_ELEMENT *)piece->b + p * piece->b_row + j * piece->b_column;
    for (size_t q = 0; q < depth; q++, b += piece->b_row, panel += width) {
        if (piece->b_column == 1)
            memcpy(panel, b, columns * sizeof *b);
        else
            for (size_t i = 0; i < columns; i++)
                panel[i] = b[i * piece->b_column];
        for (size_t i = columns; i < width; i++)
            panel[i] = 0;
    }
}

/* For few rows, reads b once, sequentially: row `i` of the result, columns [first, end). */
static xcvm_status NAMED(stream)(xcvm_poller *poller, const xcvm_product_piece *piece, size_t i, size_t first,
                                 size_t end)
{
    enum { AT_ONCE = 8 };
    const XCVM_ELEMENT *a = (const XCVM_ELEMENT *)piece->a + i * piece->a_row, *b = piece->b;
    XCVM_ELEMENT *y = (XCVM_ELEMENT *)piece->y + i * piece->n;
    if (!piece->add)
        memset(y + first, 0, (end - first) * sizeof *y);
    size_t p = 0;
    for (; p + AT_ONCE <= piece->k; p += AT_ONCE) {
        const XCVM_ELEMENT *from = b + p * piece->b_row;
        XCVM_ELEMENT x[AT_ONCE];
        for (size_t q = 0; q < AT_ONCE; q++)
            x[q] = a[(p + q) * piece->a_column];
        XCVM_TRY(xcvm_poll_after(poller, end - first));
        XCVM_INDEPENDENT
        for (size_t j = first; j < end; j++) {
            XCVM_ELEMENT sum = y[j];
#pragma GCC unroll 8
            for (size_t q = 0; q < AT_ONCE; q++)
                sum += x[q] * from[q * piece->b_row + j];
            y[j] = sum;
        }
    }
    for (; p < piece->k; p++) {
        const XCVM_ELEMENT x = a[p * piece->a_column], *from = b + p * piece->b_row;
        XCVM_INDEPENDENT
        for (size_t j = first; j < end; j++)
            y[j] += x * from[j];
    }
    return XCVM_OK;
}

static xcvm_status NAMED(stream_rows)(xcvm_poller *poller, const xcvm_product_piece *piece)
{
    for (size_t i = 0; i < piece->m; i++)
        for (size_t j = 0; j < piece->n; j += XCVM_POLL_STEPS)
            XCVM_TRY(NAMED(stream)(poller, piece, i, j, j + xcvm_min(piece->n - j, XCVM_POLL_STEPS)));
    return XCVM_OK;
}

static xcvm_status NAMED(multiply)(const xcvm_product_piece *piece)
{
    enum { DEPTH = 24 * 1024 / (TILE_VECTORS * 4 * XCVM_LANES), WIDTH = (int)(TILE_VECTORS * LANES) };
    XCVM_ELEMENT panel[DEPTH * WIDTH] __attribute__((aligned(64)));
    const XCVM_ELEMENT *a = piece->a;
    XCVM_ELEMENT *y = piece->y;
    const size_t n = piece->n;
    xcvm_poller poller = xcvm_poller_of(piece->kernel);
    if (piece->few_rows && piece->b_column == 1)
        return NAMED(stream_rows)(&poller, piece);
    if (piece->k == 0 && !piece->add)
        memset(y, 0, piece->m * n * sizeof *y);
    for (size_t p = 0; p < piece->k; p += DEPTH) {
        const size_t depth = piece->k - p < DEPTH ? piece->k - p : DEPTH;
        const bool add = piece->add || p > 0;
        for (size_t j = 0; j < n; j += WIDTH) {
            const size_t columns = n - j < WIDTH ? n - j : WIDTH, vectors = (columns + LANES - 1) / LANES;
            XCVM_TRY(xcvm_poll_after(&poller, depth * (columns + piece->m)));
            const XCVM_ELEMENT *from = a + p * piece->a_column;
            NAMED(pack)(piece, p, depth, j, columns, vectors * LANES, panel);
            if (vectors == 3)
                NAMED(panel)(piece, from, panel, WIDTH, depth, y + j, columns, add, 3);
            else if (vectors == 2)
                NAMED(panel)(piece, from, panel, 2 * LANES, depth, y + j, columns, add, 2);
            else
                NAMED(panel)(piece, from, panel, LANES, depth, y + j, columns, add, 1);
        }
    }
    return XCVM_OK;
}

#undef LANES
#undef NAMED
#undef XCVM_NAMED
#undef XCVM_NAMED_
#undef XCVM_ELEMENT
