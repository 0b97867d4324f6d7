/* Block-quantized weights: rounding, and the empty layout. */
#include "ops/matmul/quantized_blocks.h"
#include "ops/util/convert.h"

#include <math.h>
#include <string.h>

void xcvm_qblocks_clear(const xcvm_qblocks *b, uint8_t *codes)
{
    memset(codes, b->bits == 4 ? 0x88 : 0x80, xcvm_qblocks_bytes(b));
}

/* Rounds to f16 away from zero, so that no code exceeds its range. */
static bool round_scale(float exact, float *scale)
{
    uint16_t half;
    xcvm_store_f32(XCVM_F16, &half, 0, 1, &exact);
    xcvm_load_f32(XCVM_F16, &half, 0, 1, scale);
    if (fabsf(*scale) < fabsf(exact)) {
        half++;
        xcvm_load_f32(XCVM_F16, &half, 0, 1, scale);
    }
    return isfinite(*scale);
}

bool xcvm_qblocks_round(const float *w, size_t count, size_t stride, unsigned bits, xcvm_qblocks_form form,
                        uint8_t *codes, float *scale, unsigned *offset)
{
    const int most = (1 << bits) - 1;
    float low = 0.0f, high = 0.0f;
    for (size_t i = 0; i < count; i++) {
        low = fminf(low, w[i * stride]);
        high = fmaxf(high, w[i * stride]);
    }
    int zero = 1 << (bits - 1);
    float exact;
    if (form == XCVM_QBLOCKS_ASYMMETRIC)
        exact = high / (float)most - low / (float)most;
    else if (bits == 4)
        exact = (high > -low ? high : low) / (float)-zero;
    else
        exact = fmaxf(high, -low) / (float)(zero - 1);
    if (!round_scale(exact, scale))
        return false;
    const float inverse = *scale != 0.0f ? 1.0f / *scale : 0.0f;
    if (form == XCVM_QBLOCKS_ASYMMETRIC) {
        const int at = (int)fminf(fmaxf(rintf(-low * inverse), 0.0f), (float)most);
        zero = at;
    }
    *offset = (unsigned)zero;
    for (size_t i = 0; i < count; i++) {
        const float code = rintf(w[i * stride] * inverse) + (float)zero;
        codes[i] = (uint8_t)fminf(fmaxf(code, 0.0f), (float)most);
    }
    return true;
}
