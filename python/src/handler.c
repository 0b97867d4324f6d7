/* Whether Ctrl-C raises KeyboardInterrupt. Calls that cannot be repeated are cancelled only then: a handler of the
 * program's own may return, and the work must go on. */
#include "xcvm_python.h"

#include <signal.h>

bool interrupt_raises(module_state *state)
{
    if (state->get_signal == NULL) {
        PyObject *module = PyImport_ImportModule("_signal");
        PyObject *get_signal = module != NULL ? PyObject_GetAttrString(module, "getsignal") : NULL;
        PyObject *handler = get_signal != NULL ? PyObject_GetAttrString(module, "default_int_handler") : NULL;
        PyObject *number = handler != NULL ? PyLong_FromLong(SIGINT) : NULL;
        Py_XDECREF(module);
        if (number == NULL) {
            Py_XDECREF(get_signal);
            Py_XDECREF(handler);
            PyErr_Clear();
            return false;
        }
        state->get_signal = get_signal;
        state->default_handler = handler;
        state->interrupt_number = number;
    }
    PyObject *handler = PyObject_CallFunctionObjArgs(state->get_signal, state->interrupt_number, NULL);
    if (handler == NULL)
        PyErr_Clear();
    const bool raises = handler == state->default_handler;
    Py_XDECREF(handler);
    return raises;
}
