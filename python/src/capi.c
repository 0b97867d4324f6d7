/* The capsule through which xcvm._compiler makes values of objects and objects of values. */
#include "capi.h"

static void destroy_capi(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, CAPI_NAME)); }

PyObject *capi_create(module_state *state)
{
    capi *table = PyMem_Malloc(sizeof *table);
    if (table == NULL)
        return PyErr_NoMemory();
    *table = (capi){.state = state,
                    .raise_error = raise_error,
                    .error_from_exception = error_from_exception,
                    .object_from_value = object_from_value,
                    .tensor_from_value = tensor_from_value,
                    .value_from_object = value_from_object,
                    .parameter_from = parameter_from,
                    .dtype_from_numpy_name = dtype_from_numpy_name,
                    .trash_empty = trash_empty,
                    .interrupt_begin = interrupt_begin_flag,
                    .interrupt_end = interrupt_end_flag,
                    .interrupt_raises = interrupt_raises};
    PyObject *capsule = PyCapsule_New(table, CAPI_NAME, destroy_capi);
    if (capsule == NULL)
        PyMem_Free(table);
    return capsule;
}
