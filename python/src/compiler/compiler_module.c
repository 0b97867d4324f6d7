/* The module xcvm._compiler, over libxcvm-compiler; imported when a function that needs it is called first. */
#include "compiler_module.h"

static PyMethodDef functions[] = {
    {"compile", compiler_compile, METH_VARARGS, "compile(model, options, callbacks): (program, data, report)."},
    {"check", compiler_check, METH_VARARGS, "check(path, options): (status, name, text, message)."},
    {"recognize", compiler_recognize, METH_VARARGS, "recognize(bytes): kind of a file."},
    {"default_inputs", compiler_default_inputs, METH_VARARGS, "default_inputs(model): list of names."},
    {"export_c", compiler_export_c, METH_VARARGS,
     "export_c(program, name, header_name, target, arena_in, with_main, own_weights): (source, header, weights)."},
    {"image", compiler_image, METH_VARARGS, "image(bytes, type): Tensor."},
    {"load_value", compiler_load_value, METH_VARARGS, "load_value(bytes, type): a value of a serialized TensorProto."},
    {"save_value", compiler_save_value, METH_VARARGS, "save_value(value, name): a serialized TensorProto."},
    {"quantize", compiler_quantize, METH_VARARGS,
     "quantize(model, options, callbacks, prepare): (model, report, tensors, nodes, outputs)."},
    {"lists", compiler_lists, METH_NOARGS, "lists(): what the compiler has, by kind."},
    {0},
};

static int module_exec(PyObject *module)
{
    compiler_state *state = PyModule_GetState(module);
    PyObject *run = PyImport_ImportModule("xcvm._run");
    state->capsule = run != NULL ? PyObject_GetAttrString(run, "_capi") : NULL;
    Py_XDECREF(run);
    state->api = state->capsule != NULL ? PyCapsule_GetPointer(state->capsule, CAPI_NAME) : NULL;
    if (state->api == NULL)
        return -1;
    state->dataset_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &dataset_spec, NULL);
    if (state->dataset_type == NULL || PyModule_AddType(module, state->dataset_type) < 0)
        return -1;
    state->trainer_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &trainer_spec, NULL);
    return state->trainer_type != NULL ? PyModule_AddType(module, state->trainer_type) : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    const compiler_state *state = PyModule_GetState(module);
    Py_VISIT(state->capsule);
    Py_VISIT(state->dataset_type);
    Py_VISIT(state->trainer_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    compiler_state *state = PyModule_GetState(module);
    Py_CLEAR(state->capsule);
    Py_CLEAR(state->dataset_type);
    Py_CLEAR(state->trainer_type);
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
    .m_name = "xcvm._compiler",
    .m_doc = "The compiler.",
    .m_size = sizeof(compiler_state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__compiler(void)
{
    module_slots_add(&slots[1]);
    return PyModuleDef_Init(&definition);
}
