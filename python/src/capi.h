/* Functions of xcvm._run that xcvm._compiler uses, in the capsule xcvm._run._capi. */
#ifndef XCVM_PYTHON_SRC_CAPI_H
#define XCVM_PYTHON_SRC_CAPI_H

#include "xcvm_python.h"

#define CAPI_NAME "xcvm._run._capi"

typedef struct capi {
    module_state *state;
    PyObject *(*raise_error)(const xcvm_error *error);
    xcvm_status (*error_from_exception)(xcvm_error *error, const char *where);
    PyObject *(*object_from_value)(module_state *state, const xcvm_value *value);
    PyObject *(*tensor_from_value)(module_state *state, xcvm_value *value);
    xcvm_value *(*value_from_object)(module_state *state, PyObject *object, const xcvm_type *type, const char *name);
    PyObject *(*parameter_from)(module_state *state, const xcvm_value_info *parameter);
    xcvm_dtype (*dtype_from_numpy_name)(const char *name);
    void (*trash_empty)(trash_list *trash);
    void (*interrupt_begin)(interrupt_scope *interruption, uint32_t *flag);
    void (*interrupt_end)(const interrupt_scope *interruption);
    bool (*interrupt_raises)(module_state *state);
} capi;

#endif
