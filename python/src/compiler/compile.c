/* Compiling and checking models. */
#include "compiler_module.h"

#include <xcvm/export_c.h>

#include <stdlib.h>
#include <string.h>

/* ---- Compiling ---- */

PyObject *compiler_compile(PyObject *module, PyObject *args)
{
    const compiler_state *state = PyModule_GetState(module);
    PyObject *model, *dict, *functions;
    if (!PyArg_ParseTuple(args, "OO!O!:compile", &model, &PyDict_Type, &dict, &PyDict_Type, &functions))
        return NULL;
    compile_options options;
    compiler_callbacks callbacks = {0};
    model_source source = {0};
    PyObject *result = NULL;
    if (options_read(&options, dict) == 0 && callbacks_read(&callbacks, functions) == 0 &&
        model_source_read(&source, model) == 0) {
        byte_buffer program = {0}, data = {0};
        xcc_report report = {.size = sizeof report};
        xcvm_error error = {.status = XCVM_OK, .pc = -1};
        callbacks_use(&callbacks, &options.options);
        if (options.options.onnx_export.data_location != NULL)
            options.options.onnx_export.data = byte_buffer_sink(&data);
        const char *path = source.path != NULL ? PyBytes_AsString(source.path) : NULL;
        xcvm_status status;
        do {
            program.count = data.count = 0;
            callbacks_begin(state, &callbacks);
            status = path != NULL
                         ? xcc_compile_file(path, &options.options, byte_buffer_sink(&program), &report, &error)
                         : xcc_compile(source.buffer.buf, (size_t)source.buffer.len, &options.options,
                                       byte_buffer_sink(&program), &report, &error);
            callbacks_end(state, &callbacks);
        } while (callbacks_repeat(&callbacks, status));
        if (status != XCVM_OK || callbacks.failure[0] != NULL)
            callbacks_raise(state, &callbacks, &error);
        else
            result = Py_BuildValue("(NNN)", byte_buffer_take(&program), byte_buffer_take(&data),
                                   compile_report_dict(&report));
        free(program.data);
        free(data.data);
    }
    model_source_release(&source);
    options_release(&options);
    return result;
}

PyObject *compiler_check(PyObject *module, PyObject *args)
{
    const compiler_state *state = PyModule_GetState(module);
    PyObject *path, *dict;
    if (!PyArg_ParseTuple(args, "OO!:check", &path, &PyDict_Type, &dict))
        return NULL;
    compile_options options;
    compiler_callbacks callbacks = {0};
    PyObject *name = NULL, *result = NULL;
    if (options_read(&options, dict) == 0 && PyUnicode_FSConverter(path, &name) != 0) {
        byte_buffer text = {0};
        xcvm_error error = {.status = XCVM_OK, .pc = -1};
        const char *file = PyBytes_AsString(name);
        callbacks_use(&callbacks, &options.options);
        xcvm_status status;
        do {
            text.count = 0;
            callbacks_begin(state, &callbacks);
            status = xcc_check_file(file, &options.options, byte_buffer_sink(&text), &error);
            callbacks_end(state, &callbacks);
        } while (callbacks_repeat(&callbacks, status));
        PyObject *bytes = byte_buffer_take(&text), *report = NULL;
        if (callbacks.failure[0] != NULL)
            callbacks_raise(state, &callbacks, &error);
        else if (bytes != NULL)
            report = PyUnicode_FromEncodedObject(bytes, "utf-8", "replace");
        Py_XDECREF(bytes);
        if (report != NULL)
            result = Py_BuildValue("(isNs)", (int)status, status == XCVM_OK ? "OK" : xcvm_status_name(status), report,
                                   status == XCVM_OK ? "" : error.message);
    }
    Py_XDECREF(name);
    options_release(&options);
    return result;
}

/* ---- Defaults of inputs ---- */

typedef struct name_list {
    compiler_callbacks callbacks;
    PyObject *list;
} name_list;

static void append_name(void *user, const char *name)
{
    name_list *names = user;
    callbacks_enter(&names->callbacks);
    PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
    if (text == NULL || PyList_Append(names->list, text) < 0)
        callbacks_fail(&names->callbacks);
    Py_XDECREF(text);
    callbacks_leave(&names->callbacks);
}

PyObject *compiler_default_inputs(PyObject *module, PyObject *args)
{
    const compiler_state *state = PyModule_GetState(module);
    PyObject *model;
    model_source source;
    if (!PyArg_ParseTuple(args, "O:default_inputs", &model) || model_source_read(&source, model) < 0)
        return NULL;
    name_list names = {.list = PyList_New(0)};
    if (names.list != NULL) {
        xcvm_error error = {.pc = -1};
        const char *path = source.path != NULL ? PyBytes_AsString(source.path) : NULL;
        names.callbacks.thread = PyEval_SaveThread();
        const xcvm_status status =
            path != NULL ? xcc_visit_default_inputs_file(path, NULL, (xcc_name_visitor){append_name, &names}, &error)
                         : xcc_visit_default_inputs(source.buffer.buf, (size_t)source.buffer.len, NULL,
                                                    (xcc_name_visitor){append_name, &names}, &error);
        PyEval_RestoreThread(names.callbacks.thread);
        if (status != XCVM_OK || names.callbacks.failure[0] != NULL) {
            callbacks_raise(state, &names.callbacks, &error);
            Py_CLEAR(names.list);
        }
    }
    model_source_release(&source);
    return names.list;
}

/* ---- Export as C ---- */

PyObject *compiler_export_c(PyObject *module, PyObject *args)
{
    const compiler_state *state = PyModule_GetState(module);
    Py_buffer program;
    const char *name, *header, *target, *arena;
    int with_main, own_weights;
    if (!PyArg_ParseTuple(args, "y*zzzzpp:export_c", &program, &name, &header, &target, &arena, &with_main,
                          &own_weights))
        return NULL;
    byte_buffer files[3] = {{0}};
    const xcc_export_c_options options = {.size = sizeof options,
                                          .name = name,
                                          .header_name = header,
                                          .target = target,
                                          .arena_in = arena,
                                          .with_main = with_main != 0,
                                          .source = byte_buffer_sink(&files[0]),
                                          .header = byte_buffer_sink(&files[1]),
                                          .weights = own_weights ? byte_buffer_sink(&files[2]) : (xcvm_sink){0}};
    xcvm_error error;
    xcvm_status status;
    Py_BEGIN_ALLOW_THREADS status = xcc_export_c(program.buf, (size_t)program.len, &options, &error);
    Py_END_ALLOW_THREADS PyBuffer_Release(&program);
    PyObject *bytes[3] = {byte_buffer_take(&files[0]), byte_buffer_take(&files[1]), byte_buffer_take(&files[2])};
    if (status == XCVM_OK)
        return Py_BuildValue("(NNN)", bytes[0], bytes[1], bytes[2]);
    for (size_t i = 0; i < COUNT_OF(bytes); i++)
        Py_XDECREF(bytes[i]);
    return state->api->raise_error(&error);
}
