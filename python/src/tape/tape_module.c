/* The module xcvm._tape: the tape, over libxcvm-compiler. */
#include "tape_module.h"

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type != NULL ? PyModule_AddType(module, *type) : -1;
}

static int module_exec(PyObject *module)
{
    tape_state *state = PyModule_GetState(module);
    PyObject *run = PyImport_ImportModule("xcvm._run");
    state->capsule = run != NULL ? PyObject_GetAttrString(run, "_capi") : NULL;
    Py_XDECREF(run);
    state->api = state->capsule != NULL ? PyCapsule_GetPointer(state->capsule, CAPI_NAME) : NULL;
    if (state->api == NULL || add_type(module, &variable_spec, &state->variable_type) < 0 ||
        add_type(module, &operation_spec, &state->operation_type) < 0 ||
        add_type(module, &static_spec, &state->static_type) < 0 ||
        add_type(module, &layer_spec, &state->layer_type) < 0 ||
        add_type(module, &optimizer_spec, &state->optimizer_type) < 0 ||
        add_type(module, &tape_spec, &state->tape_type) < 0)
        return -1;
    return instructions_add(module, state);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    const tape_state *state = PyModule_GetState(module);
    Py_VISIT(state->capsule);
    Py_VISIT(state->tape_type);
    Py_VISIT(state->variable_type);
    Py_VISIT(state->operation_type);
    Py_VISIT(state->static_type);
    Py_VISIT(state->layer_type);
    Py_VISIT(state->optimizer_type);
    Py_VISIT(state->instruction_index);
    Py_VISIT(state->instructions);
    return 0;
}

static int module_clear(PyObject *module)
{
    tape_state *state = PyModule_GetState(module);
    Py_CLEAR(state->capsule);
    Py_CLEAR(state->tape_type);
    Py_CLEAR(state->variable_type);
    Py_CLEAR(state->operation_type);
    Py_CLEAR(state->static_type);
    Py_CLEAR(state->layer_type);
    Py_CLEAR(state->optimizer_type);
    Py_CLEAR(state->instruction_index);
    Py_CLEAR(state->instructions);
    return 0;
}

static void module_free(void *module) { module_clear(module); }

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, SLOT(module_exec)},
    {0, NULL},
    {0, NULL},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "xcvm._tape",
    .m_doc = "The tape: define-by-run networks. INSTRUCTIONS describes the instructions that Tape.call takes.",
    .m_size = sizeof(tape_state),
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__tape(void)
{
    module_slots_add(&slots[1]);
    return PyModuleDef_Init(&definition);
}
