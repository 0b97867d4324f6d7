/* A step of SGD on rows of a matrix whose gradient is a product: element (i, j) is the sum of the products of
 * a[q * a_stride + i] and b[q * columns + j], q below depth. xcvm_rank_value is the function of the type value_t:
 * whoever includes this defines both, once for each type; exported C takes it from here, too. */

static void xcvm_rank_value(value_t *p, size_t rows, size_t columns, const value_t *a, size_t a_stride,
                            const value_t *b, size_t depth, value_t rate)
{
    value_t sums[XCVM_STEP_BLOCK];
    /* Of empty rows there may be more than anybody could count. */
    if (columns == 0)
        return;
    for (size_t row = 0; row < rows && depth == 1; row++, p += columns) {
        const value_t factor = a[row];
        XCVM_INDEPENDENT
        for (size_t i = 0; i < columns; i++)
            p[i] -= rate * (0 + factor * b[i]);
    }
    for (size_t row = 0; row < rows && depth != 1; row++, p += columns)
        for (size_t at = 0; at < columns; at += XCVM_STEP_BLOCK) {
            const size_t count = columns - at < XCVM_STEP_BLOCK ? columns - at : XCVM_STEP_BLOCK;
            value_t *to = p + at;
            for (size_t i = 0; i < count; i++)
                sums[i] = 0;
            for (size_t q = 0; q < depth; q++) {
                const value_t factor = a[q * a_stride + row];
                const value_t *from = b + q * columns + at;
                XCVM_INDEPENDENT
                for (size_t i = 0; i < count; i++)
                    sums[i] += factor * from[i];
            }
            XCVM_INDEPENDENT
            for (size_t i = 0; i < count; i++)
                to[i] -= rate * sums[i];
        }
}
