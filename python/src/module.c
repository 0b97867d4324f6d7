/* The module xcvm._run: programs, sessions and tensors, over libxcvm. */
#include "capi.h"
#include "xcvm_python.h"

#include <string.h>

module_state *state_of_type(PyTypeObject *type)
{
    /* Classes of Python that derive from ours belong to no module. */
    for (; type != NULL; type = PyType_GetSlot(type, Py_tp_base)) {
        module_state *state = (PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) != 0 ? PyType_GetModuleState(type) : NULL;
        if (state != NULL)
            return state;
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_TypeError, "the type does not derive from a type of xcvm");
    return NULL;
}

/* ---- Functions ---- */

static PyObject *module_copied_bytes(PyObject *module, PyObject *unused)
{
    (void)unused;
    const module_state *state = PyModule_GetState(module);
    return PyLong_FromUnsignedLongLong(atomic_load(&state->copied_bytes));
}

static PyObject *module_version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(xcvm_version());
}

static PyObject *module_available_threads(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(xcvm_available_thread_count());
}

static bool append_bytes(void *user, const void *bytes, size_t count)
{
    PyObject *piece = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)count);
    const bool good = piece != NULL && PyList_Append(user, piece) == 0;
    Py_XDECREF(piece);
    return good;
}

/* Joins pieces of a sink. Takes the list, which may be NULL. */
static PyObject *join_pieces(PyObject *pieces)
{
    PyObject *empty = pieces != NULL ? PyBytes_FromStringAndSize(NULL, 0) : NULL;
    PyObject *joined = empty != NULL ? PyObject_CallMethod(empty, "join", "O", pieces) : NULL;
    Py_XDECREF(empty);
    Py_XDECREF(pieces);
    return joined;
}

static PyObject *finish_pieces(PyObject *pieces, xcvm_status status, const xcvm_error *error)
{
    if (status == XCVM_OK)
        return join_pieces(pieces);
    Py_XDECREF(pieces);
    return PyErr_Occurred() == NULL ? raise_error(error) : NULL;
}

static PyObject *module_assemble(PyObject *module, PyObject *args)
{
    (void)module;
    const char *text, *base_dir = NULL;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "s#|z:assemble", &text, &length, &base_dir))
        return NULL;
    PyObject *pieces = PyList_New(0);
    if (pieces == NULL)
        return NULL;
    xcvm_error error;
    return finish_pieces(
        pieces, xcvm_assemble(text, (size_t)length, base_dir, (xcvm_sink){append_bytes, pieces}, &error), &error);
}

static PyObject *module_disassemble(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer bytes;
    Py_ssize_t literal_limit = 0;
    int explain = 0;
    const char *path = NULL;
    if (!PyArg_ParseTuple(args, "y*|npz:disassemble", &bytes, &literal_limit, &explain, &path))
        return NULL;
    PyObject *pieces = PyList_New(0);
    xcvm_error error = {.status = XCVM_OUT_OF_MEMORY};
    const xcvm_disassemble_options options = {.size = sizeof options,
                                              .literal_limit = literal_limit > 0 ? (size_t)literal_limit : 0,
                                              .program_path = path,
                                              .explain = explain != 0};
    const xcvm_status status = pieces != NULL ? xcvm_disassemble(bytes.buf, (size_t)bytes.len, &options,
                                                                 (xcvm_sink){append_bytes, pieces}, &error)
                                              : XCVM_OUT_OF_MEMORY;
    PyBuffer_Release(&bytes);
    PyObject *joined = finish_pieces(pieces, status, &error);
    PyObject *text = joined != NULL ? PyUnicode_FromEncodedObject(joined, "utf-8", "surrogateescape") : NULL;
    Py_XDECREF(joined);
    return text;
}

static PyObject *module_statuses(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
#define STATUS(name, number, summary)                                                                                  \
    if (list != NULL) {                                                                                                \
        PyObject *row = Py_BuildValue("(iss)", number, #name, summary);                                                \
        if (row == NULL || PyList_Append(list, row) < 0)                                                               \
            Py_CLEAR(list);                                                                                            \
        Py_XDECREF(row);                                                                                               \
    }
    XCVM_STATUS_LIST(STATUS)
#undef STATUS
    return list;
}

static PyMethodDef functions[] = {
    {"version", module_version, METH_NOARGS, "Return the version of the loaded library."},
    {"available_threads", module_available_threads, METH_NOARGS, "Return how many threads this process may use."},
    {"assemble", module_assemble, METH_VARARGS,
     "assemble(text, base_dir=None, /)\n--\n\nReturn the bytes of the program that a text assembly describes."},
    {"_disassemble", module_disassemble, METH_VARARGS, "Return the text assembly of a program."},
    {"_copied_bytes", module_copied_bytes, METH_NOARGS, "Return the bytes of inputs and outputs copied so far."},
    {"_statuses", module_statuses, METH_NOARGS, "Return numbers, names and summaries of all statuses."},
    {0},
};

/* ---- Life ---- */

static int intern_names(module_state *state)
{
    state->name_array_interface = PyUnicode_InternFromString("__array_interface__");
    state->name_dlpack = PyUnicode_InternFromString("__dlpack__");
    state->name_dlpack_device = PyUnicode_InternFromString("__dlpack_device__");
    state->name_dtype = PyUnicode_InternFromString("dtype");
    state->name_name = PyUnicode_InternFromString("name");
    return state->name_array_interface != NULL && state->name_dlpack != NULL && state->name_dlpack_device != NULL &&
                   state->name_dtype != NULL && state->name_name != NULL
               ? 0
               : -1;
}

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type != NULL ? PyModule_AddType(module, *type) : -1;
}

/* Structs have sizes and may grow; before version 1.0 a minor version may change anything. */
static int check_version(void)
{
    const char *found = xcvm_version();
    char wanted[32];
    const int length = PyOS_snprintf(wanted, sizeof wanted, "%d.%d.", XCVM_VERSION_MAJOR, XCVM_VERSION_MINOR);
    if (strncmp(found, wanted, (size_t)length) == 0)
        return 0;
    PyErr_Format(
        PyExc_ImportError,
        "libxcvm has version %s, but this package was built for %s%d; install the package again, or the library "
        "of its version",
        found, wanted, XCVM_VERSION_PATCH);
    return -1;
}

static int module_exec(PyObject *module)
{
    if (check_version() < 0)
        return -1;
    interrupt_find_main_thread();
    module_state *state = PyModule_GetState(module);
    state->trash = trash_create();
    if (state->trash == NULL || intern_names(state) < 0 || add_type(module, &tensor_spec, &state->tensor_type) < 0 ||
        add_type(module, &program_spec, &state->program_type) < 0 ||
        add_type(module, &session_spec, &state->session_type) < 0)
        return -1;
    state->parameter_type = PyStructSequence_NewType(&parameter_description);
    if (state->parameter_type == NULL || PyModule_AddType(module, state->parameter_type) < 0)
        return -1;
    PyObject *capsule = capi_create(state);
    const int result = capsule != NULL ? PyModule_AddObjectRef(module, "_capi", capsule) : -1;
    Py_XDECREF(capsule);
    return result;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    const module_state *state = PyModule_GetState(module);
    Py_VISIT(state->tensor_type);
    Py_VISIT(state->program_type);
    Py_VISIT(state->session_type);
    Py_VISIT(state->parameter_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    Py_CLEAR(state->tensor_type);
    Py_CLEAR(state->program_type);
    Py_CLEAR(state->session_type);
    Py_CLEAR(state->parameter_type);
    Py_CLEAR(state->name_array_interface);
    Py_CLEAR(state->name_dlpack);
    Py_CLEAR(state->name_dlpack_device);
    Py_CLEAR(state->name_dtype);
    Py_CLEAR(state->name_name);
    Py_CLEAR(state->get_signal);
    Py_CLEAR(state->default_handler);
    Py_CLEAR(state->interrupt_number);
    return 0;
}

static void module_free(void *module)
{
    module_state *state = PyModule_GetState(module);
    module_clear(module);
    trash_destroy(state->trash);
    state->trash = NULL;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, SLOT(module_exec)},
    {0, NULL},
    {0, NULL},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "xcvm._run",
    .m_doc = "Programs, sessions and tensors.",
    .m_size = sizeof(module_state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__run(void)
{
    module_slots_add(&slots[1]);
    return PyModuleDef_Init(&definition);
}
