/* Reports of the compiler as dicts. */
#include "compiler_module.h"

typedef enum report_kind { REPORT_BOOL, REPORT_SIZE, REPORT_U64, REPORT_REAL } report_kind;

#define ROW(member, kind)                                                                                              \
    {                                                                                                                  \
#member, kind, offsetof(xcc_report, member)                                                                    \
    }
static const struct report_row {
    const char *name;
    report_kind kind;
    size_t offset;
} report_rows[] = {
    ROW(exact, REPORT_BOOL),
    ROW(nodes_before, REPORT_SIZE),
    ROW(nodes_after, REPORT_SIZE),
    ROW(flops_before, REPORT_U64),
    ROW(flops_after, REPORT_U64),
    ROW(peak_bytes_before, REPORT_U64),
    ROW(peak_bytes_after, REPORT_U64),
    ROW(parameter_bytes, REPORT_U64),
    ROW(arena_bytes, REPORT_U64),
    ROW(arena_lower_bound, REPORT_U64),
    ROW(weight_bytes_before, REPORT_U64),
    ROW(weight_bytes_after, REPORT_U64),
    ROW(uncompressed, REPORT_SIZE),
    ROW(gradient_count, REPORT_SIZE),
    ROW(gradient_bytes, REPORT_U64),
    ROW(retained_count, REPORT_SIZE),
    ROW(retained_bytes, REPORT_U64),
    ROW(recompute_peak_before, REPORT_U64),
    ROW(recomputed, REPORT_SIZE),
    ROW(recompute_time, REPORT_REAL),
    ROW(integer_products, REPORT_SIZE),
    ROW(float_products, REPORT_SIZE),
    ROW(faster_as_floats, REPORT_SIZE),
    ROW(bf16_products, REPORT_SIZE),
    ROW(exact_products, REPORT_SIZE),
    ROW(block_products, REPORT_SIZE),
    ROW(tuned, REPORT_SIZE),
    ROW(training_nodes, REPORT_SIZE),
};

static PyObject *report_number(const struct report_row *row, const xcc_report *report)
{
    const char *at = (const char *)report + row->offset;
    switch (row->kind) {
    case REPORT_BOOL:
        return PyBool_FromLong(*(const bool *)at);
    case REPORT_SIZE:
        return PyLong_FromSize_t(*(const size_t *)at);
    case REPORT_U64:
        return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
    default:
        return PyFloat_FromDouble(*(const double *)at);
    }
}

PyObject *compile_report_dict(const xcc_report *report)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < COUNT_OF(report_rows); i++) {
        PyObject *number = report_number(&report_rows[i], report);
        if (number == NULL || PyDict_SetItemString(dict, report_rows[i].name, number) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(number);
    }
    return dict;
}
