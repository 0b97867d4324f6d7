/* Conversion of tensors of any real type to and from blocks of f32. */
#include "ops/util/floats.h"

#include "ops/util/convert.h"

#include <math.h>

void xcvm_read_floats(const xcvm_value *tensor, size_t begin, size_t count, float *floats)
{
    if (tensor->dtype == XCVM_F32) {
        memcpy(floats, XCVM_CDATA(float, tensor) + begin, count * sizeof *floats);
        return;
    }
    for (size_t done = 0; done < count; done += XCVM_BLOCK) {
        double block[XCVM_BLOCK];
        const size_t n = count - done < XCVM_BLOCK ? count - done : XCVM_BLOCK;
        xcvm_load_f64((xcvm_dtype)tensor->dtype, tensor->data, begin + done, n, block);
        for (size_t i = 0; i < n; i++)
            floats[done + i] = (float)block[i];
    }
}

/* Smallest and largest number of an integer type; the latter is rounded down to a double. */
static void integer_range(xcvm_dtype dtype, double *low, double *high)
{
    const int bits = xcvm_dtype_bits(dtype);
    const bool is_signed = xcvm_dtype_in(dtype, XCVM_TYPES_SIGNED);
    *low = is_signed ? -ldexp(1, bits - 1) : 0;
    *high = bits == 64 ? nextafter(ldexp(1, is_signed ? 63 : 64), 0) : ldexp(1, is_signed ? bits - 1 : bits) - 1;
}

void xcvm_write_floats(const float *floats, size_t count, xcvm_value *tensor, size_t begin)
{
    if (tensor->dtype == XCVM_F32) {
        memcpy(XCVM_DATA(float, tensor) + begin, floats, count * sizeof *floats);
        return;
    }
    const bool integer = xcvm_dtype_in((xcvm_dtype)tensor->dtype, XCVM_TYPES_INT);
    double low = 0, high = 0;
    if (integer)
        integer_range((xcvm_dtype)tensor->dtype, &low, &high);
    for (size_t done = 0; done < count; done += XCVM_BLOCK) {
        double block[XCVM_BLOCK];
        const size_t n = count - done < XCVM_BLOCK ? count - done : XCVM_BLOCK;
        for (size_t i = 0; i < n; i++) {
            const double x = (double)floats[done + i];
            block[i] = integer ? fmin(fmax(nearbyint(x), low), high) : x;
        }
        xcvm_store_f64((xcvm_dtype)tensor->dtype, tensor->data, begin + done, n, block, false);
    }
}

void xcvm_write_double(xcvm_value *tensor, size_t index, double value)
{
    if (tensor->dtype == XCVM_F64) {
        XCVM_DATA(double, tensor)[index] = value;
    } else if (tensor->dtype == XCVM_F32) {
        XCVM_DATA(float, tensor)[index] = (float)value;
    } else {
        const float narrow = (float)value;
        xcvm_write_floats(&narrow, 1, tensor, index);
    }
}

xcvm_status xcvm_kernel_read_floats(const xcvm_kernel *k, const xcvm_value *tensor, size_t begin, size_t count,
                                    float *floats)
{
    for (size_t done = 0, n; done < count; done += n) {
        n = xcvm_min(count - done, XCVM_POLL_STEPS);
        xcvm_read_floats(tensor, begin + done, n, floats + done);
        if (done + n < count)
            XCVM_TRY(xcvm_kernel_poll(k));
    }
    return XCVM_OK;
}

xcvm_status xcvm_kernel_write_floats(const xcvm_kernel *k, const float *floats, size_t count, xcvm_value *tensor,
                                     size_t begin)
{
    for (size_t done = 0, n; done < count; done += n) {
        n = xcvm_min(count - done, XCVM_POLL_STEPS);
        xcvm_write_floats(floats + done, n, tensor, begin + done);
        if (done + n < count)
            XCVM_TRY(xcvm_kernel_poll(k));
    }
    return XCVM_OK;
}
