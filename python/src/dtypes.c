/* Element types: their names in the buffer protocol, NumPy and DLPack, and single elements as Python numbers. */
#include "xcvm_python.h"

#include <math.h>
#include <string.h>

/* DLDataTypeCode of DLPack 1.1. */
enum {
    DL_INT,
    DL_UINT,
    DL_FLOAT,
    DL_BFLOAT = 4,
    DL_COMPLEX,
    DL_BOOL,
    DL_F8E4M3FN = 10,
    DL_F8E4M3FNUZ,
    DL_F8E5M2,
    DL_F8E5M2FNUZ,
    DL_F8E8M0FNU,
    DL_F4E2M1FN = 17,
    DL_NONE = 255
};

static const dtype_info table[] = {
    {XCVM_F32, "f", "float32", DL_FLOAT, 32},
    {XCVM_F64, "d", "float64", DL_FLOAT, 64},
    {XCVM_F16, "e", "float16", DL_FLOAT, 16},
    {XCVM_I8, "b", "int8", DL_INT, 8},
    {XCVM_U8, "B", "uint8", DL_UINT, 8},
    {XCVM_I16, "h", "int16", DL_INT, 16},
    {XCVM_U16, "H", "uint16", DL_UINT, 16},
    {XCVM_I32, "i", "int32", DL_INT, 32},
    {XCVM_U32, "I", "uint32", DL_UINT, 32},
    {XCVM_I64, "q", "int64", DL_INT, 64},
    {XCVM_U64, "Q", "uint64", DL_UINT, 64},
    {XCVM_BOOL, "?", "bool", DL_BOOL, 8},
    {XCVM_C64, "Zf", "complex64", DL_COMPLEX, 64},
    {XCVM_C128, "Zd", "complex128", DL_COMPLEX, 128},
    {XCVM_STRING, NULL, "object", DL_NONE, 0},
    {XCVM_BF16, NULL, "bfloat16", DL_BFLOAT, 16},
    {XCVM_F8E4M3FN, NULL, "float8_e4m3fn", DL_F8E4M3FN, 8},
    {XCVM_F8E4M3FNUZ, NULL, "float8_e4m3fnuz", DL_F8E4M3FNUZ, 8},
    {XCVM_F8E5M2, NULL, "float8_e5m2", DL_F8E5M2, 8},
    {XCVM_F8E5M2FNUZ, NULL, "float8_e5m2fnuz", DL_F8E5M2FNUZ, 8},
    {XCVM_F8E8M0, NULL, "float8_e8m0fnu", DL_F8E8M0FNU, 8},
    {XCVM_U4, NULL, "uint4", DL_NONE, 4},
    {XCVM_I4, NULL, "int4", DL_NONE, 4},
    {XCVM_F4E2M1, NULL, "float4_e2m1fn", DL_NONE, 4},
    {XCVM_U2, NULL, "uint2", DL_NONE, 2},
    {XCVM_I2, NULL, "int2", DL_NONE, 2},
    {XCVM_F24, NULL, "void24", DL_NONE, 24},
};

const dtype_info *dtype_find(xcvm_dtype dtype)
{
    for (size_t i = 0; i < COUNT_OF(table); i++)
        if (table[i].dtype == dtype)
            return &table[i];
    return NULL;
}

bool dtype_is_packed(xcvm_dtype dtype)
{
    const int bits = xcvm_dtype_bits(dtype);
    return bits > 0 && bits < 8;
}

/* Integers have formats of C types whose size depends on the machine; the size of an item decides. */
static xcvm_dtype integer_of(bool is_signed, Py_ssize_t size)
{
    switch (size) {
    case 1:
        return is_signed ? XCVM_I8 : XCVM_U8;
    case 2:
        return is_signed ? XCVM_I16 : XCVM_U16;
    case 4:
        return is_signed ? XCVM_I32 : XCVM_U32;
    case 8:
        return is_signed ? XCVM_I64 : XCVM_U64;
    default:
        return XCVM_NO_DTYPE;
    }
}

xcvm_dtype dtype_from_format(const char *format, Py_ssize_t item_size, bool *swapped)
{
    *swapped = false;
    if (format == NULL)
        return item_size == 1 ? XCVM_U8 : XCVM_NO_DTYPE;
    if (*format == '>' || *format == '!') {
        *swapped = item_size > 1;
        format++;
    } else if (*format == '<' || *format == '=' || *format == '@') {
        format++;
    }
    if (format[0] == 'Z' && format[1] != '\0' && format[2] == '\0')
        return format[1] == 'f' ? XCVM_C64 : format[1] == 'd' ? XCVM_C128 : XCVM_NO_DTYPE;
    if (format[0] == '\0' || format[1] != '\0')
        return XCVM_NO_DTYPE;
    if (strchr("bhilqn", *format) != NULL)
        return integer_of(true, item_size);
    if (strchr("BHILQN", *format) != NULL)
        return integer_of(false, item_size);
    switch (*format) {
    case 'f':
        return XCVM_F32;
    case 'd':
        return XCVM_F64;
    case 'e':
        return XCVM_F16;
    case '?':
        return XCVM_BOOL;
    default:
        return XCVM_NO_DTYPE;
    }
}

xcvm_dtype dtype_from_numpy_name(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(table); i++)
        if (strcmp(table[i].numpy_name, name) == 0)
            return table[i].dtype;
    return XCVM_NO_DTYPE;
}

xcvm_dtype dtype_from_dlpack(int code, int bits)
{
    for (size_t i = 0; i < COUNT_OF(table); i++)
        if (table[i].dlpack_code == code && table[i].dlpack_bits == bits)
            return table[i].dtype;
    return XCVM_NO_DTYPE;
}

/* ---- Elements ---- */

/* A binary format of fewer than 32 bits. Formats without infinities have a NaN in their greatest code, or (fnuz) in the
 * code of the negative zero. */
typedef struct small_float {
    xcvm_dtype dtype;
    int exponent_bits, fraction_bits, bias;
    enum { IEEE, NAN_IS_GREATEST, NAN_IS_MINUS_ZERO, NO_NAN } special;
} small_float;

static const small_float small_floats[] = {
    {XCVM_F16, 5, 10, 15, IEEE},
    {XCVM_BF16, 8, 7, 127, IEEE},
    {XCVM_F24, 8, 15, 127, IEEE},
    {XCVM_F8E4M3FN, 4, 3, 7, NAN_IS_GREATEST},
    {XCVM_F8E4M3FNUZ, 4, 3, 8, NAN_IS_MINUS_ZERO},
    {XCVM_F8E5M2, 5, 2, 15, IEEE},
    {XCVM_F8E5M2FNUZ, 5, 2, 16, NAN_IS_MINUS_ZERO},
    {XCVM_F4E2M1, 2, 1, 1, NO_NAN},
};

static double small_float_value(const small_float *format, uint32_t code)
{
    const uint32_t fraction_mask = (1u << format->fraction_bits) - 1, exponent_mask = (1u << format->exponent_bits) - 1;
    const uint32_t fraction = code & fraction_mask, exponent = code >> format->fraction_bits & exponent_mask;
    const bool negative = code >> (format->fraction_bits + format->exponent_bits) & 1;
    if (format->special == IEEE && exponent == exponent_mask)
        return fraction != 0 ? (double)NAN : negative ? -(double)INFINITY : (double)INFINITY;
    if (format->special == NAN_IS_GREATEST && exponent == exponent_mask && fraction == fraction_mask)
        return (double)NAN;
    if (format->special == NAN_IS_MINUS_ZERO && negative && exponent == 0 && fraction == 0)
        return (double)NAN;
    const double significand = exponent != 0 ? (double)(fraction | (fraction_mask + 1)) : (double)fraction;
    const int power = (exponent != 0 ? (int)exponent : 1) - format->bias - format->fraction_bits;
    const double magnitude = ldexp(significand, power);
    return negative ? -magnitude : magnitude;
}

static PyObject *packed_element(xcvm_dtype dtype, const uint8_t *bytes, size_t index)
{
    const size_t bits = (size_t)xcvm_dtype_bits(dtype);
    const size_t per_byte = 8 / bits;
    const uint32_t code = (uint32_t)(bytes[index / per_byte] >> (index % per_byte * bits)) & ((1u << bits) - 1);
    if (dtype == XCVM_F4E2M1)
        return PyFloat_FromDouble(small_float_value(&small_floats[COUNT_OF(small_floats) - 1], code));
    const bool is_signed = dtype == XCVM_I4 || dtype == XCVM_I2;
    const long value = (long)code;
    return PyLong_FromLong(is_signed && code >> (bits - 1) != 0 ? value - (1L << bits) : value);
}

PyObject *dtype_element(xcvm_dtype dtype, const void *data, size_t index)
{
    if (dtype_is_packed(dtype))
        return packed_element(dtype, data, index);
    const size_t size = (size_t)xcvm_dtype_bits(dtype) / 8;
    union {
        float f32;
        double f64, pair[2];
        float short_pair[2];
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
    } element = {.pair = {0}};
    memcpy(&element, (const char *)data + index * size, size);
    switch (dtype) {
    case XCVM_F32:
        return PyFloat_FromDouble((double)element.f32);
    case XCVM_F64:
        return PyFloat_FromDouble(element.f64);
    case XCVM_I8:
        return PyLong_FromLong(element.i8);
    case XCVM_U8:
        return PyLong_FromLong(element.u8);
    case XCVM_I16:
        return PyLong_FromLong(element.i16);
    case XCVM_U16:
        return PyLong_FromLong(element.u16);
    case XCVM_I32:
        return PyLong_FromLong(element.i32);
    case XCVM_U32:
        return PyLong_FromUnsignedLong(element.u32);
    case XCVM_I64:
        return PyLong_FromLongLong(element.i64);
    case XCVM_U64:
        return PyLong_FromUnsignedLongLong(element.u64);
    case XCVM_BOOL:
        return PyBool_FromLong(element.u8);
    case XCVM_C64:
        return PyComplex_FromDoubles((double)element.short_pair[0], (double)element.short_pair[1]);
    case XCVM_C128:
        return PyComplex_FromDoubles(element.pair[0], element.pair[1]);
    case XCVM_F8E8M0:
        return PyFloat_FromDouble(element.u8 == 255 ? (double)NAN : ldexp(1.0, element.u8 - 127));
    default:
        for (size_t i = 0; i < COUNT_OF(small_floats); i++)
            if (small_floats[i].dtype == dtype)
                return PyFloat_FromDouble(small_float_value(&small_floats[i], element.u32));
        PyErr_Format(PyExc_TypeError, "elements of type %s are not numbers", xcvm_dtype_name(dtype));
        return NULL;
    }
}

static bool store_integer(xcvm_dtype dtype, void *data, PyObject *number)
{
    const size_t size = (size_t)xcvm_dtype_bits(dtype) / 8;
    if (dtype == XCVM_U64) {
        const unsigned long long whole = PyLong_AsUnsignedLongLong(number);
        if (whole == (unsigned long long)-1 && PyErr_Occurred() != NULL)
            return false;
        memcpy(data, &whole, sizeof whole);
        return true;
    }
    const long long whole = PyLong_AsLongLong(number);
    if (whole == -1 && PyErr_Occurred() != NULL)
        return false;
    const bool is_signed = dtype == XCVM_I8 || dtype == XCVM_I16 || dtype == XCVM_I32 || dtype == XCVM_I64;
    const int bits = xcvm_dtype_bits(dtype);
    const long long least = is_signed ? -(1LL << (bits - 2)) * 2 : 0;
    const long long greatest = bits == 64 ? INT64_MAX : (1LL << (is_signed ? bits - 1 : bits)) - 1;
    if (whole < least || whole > greatest) {
        PyErr_Format(PyExc_OverflowError, "%lld is outside the range of %s", whole, xcvm_dtype_name(dtype));
        return false;
    }
    memcpy(data, &whole, size); /* little-endian machines only, as programs are */
    return true;
}

bool dtype_stores(xcvm_dtype dtype)
{
    switch (dtype) {
    case XCVM_F32:
    case XCVM_F64:
    case XCVM_BOOL:
    case XCVM_I8:
    case XCVM_U8:
    case XCVM_I16:
    case XCVM_U16:
    case XCVM_I32:
    case XCVM_U32:
    case XCVM_I64:
    case XCVM_U64:
        return true;
    default:
        return false;
    }
}

bool dtype_store(xcvm_dtype dtype, void *data, PyObject *number)
{
    if (!dtype_stores(dtype)) {
        PyErr_Format(PyExc_TypeError, "a Python number cannot be a tensor of %s", xcvm_dtype_name(dtype));
        return false;
    }
    switch (dtype) {
    case XCVM_F32:
    case XCVM_F64: {
        const double real = PyFloat_AsDouble(number);
        if (real == -1 && PyErr_Occurred() != NULL)
            return false;
        const float narrow = (float)real;
        memcpy(data, dtype == XCVM_F64 ? (const void *)&real : (const void *)&narrow, dtype == XCVM_F64 ? 8 : 4);
        return true;
    }
    case XCVM_BOOL: {
        const int truth = PyObject_IsTrue(number);
        *(uint8_t *)data = truth > 0;
        return truth >= 0;
    }
    default:
        return store_integer(dtype, data, number);
    }
}
