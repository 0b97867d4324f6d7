/* Quantizing models. */
#include "compiler_module.h"

#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(xcc_quantizer_options, member)
static const option_row table[] = {
    {"dims", OPTION_DIMS, AT(dims), AT(dim_count), NULL},
    {"threads", OPTION_INT, AT(threads), 0, NULL},
    {"memory_limit", OPTION_SIZE, AT(memory_limit), 0, NULL},
    {"timeout_ns", OPTION_U64, AT(timeout_ns), 0, NULL},
    {"method", OPTION_ENUM, AT(method), 0, "auto|minmax|moving|entropy|percentile|mse|tail"},
    {"percentile", OPTION_REAL, AT(percentile), 0, NULL},
    {"averaging", OPTION_REAL, AT(averaging), 0, NULL},
    {"form", OPTION_ENUM, AT(form), 0, "qdq|qoperator"},
    {"activations", OPTION_DTYPE, AT(activations), 0, NULL},
    {"weights", OPTION_DTYPE, AT(weights), 0, NULL},
    {"block", OPTION_I64, AT(block), 0, NULL},
    {"rounding", OPTION_ENUM, AT(rounding), 0, "auto|nearest|gptq"},
    {"per_tensor", OPTION_BOOL, AT(per_tensor), 0, NULL},
    {"symmetric_activations", OPTION_BOOL, AT(symmetric_activations), 0, NULL},
    {"asymmetric_weights", OPTION_BOOL, AT(asymmetric_weights), 0, NULL},
    {"equalize", OPTION_BOOL, AT(equalize), 0, NULL},
    {"no_channel_scaling", OPTION_BOOL, AT(no_channel_scaling), 0, NULL},
    {"trainable", OPTION_BOOL, AT(trainable), 0, NULL},
    {"correct_bias", OPTION_BOOL, AT(correct_bias), 0, NULL},
    {"training_form", OPTION_BOOL, AT(training_form), 0, NULL},
    {"nodes", OPTION_NAMES, AT(nodes), AT(node_count), NULL},
    {"exclude_nodes", OPTION_NAMES, AT(exclude_nodes), AT(exclude_node_count), NULL},
    {"types", OPTION_NAMES, AT(types), AT(type_count), NULL},
    {"exclude_types", OPTION_NAMES, AT(exclude_types), AT(exclude_type_count), NULL},
    {"max_error", OPTION_REAL, AT(max_error), 0, NULL},
    {"max_mean_error", OPTION_REAL, AT(max_mean_error), 0, NULL},
    {"sensitivity", OPTION_BOOL, AT(sensitivity), 0, NULL},
    {"held_out", OPTION_REAL, AT(held_out), 0, NULL},
    {"min_agreement", OPTION_REAL, AT(min_agreement), 0, NULL},
    {"agreement_output", OPTION_TEXT, AT(agreement_output), 0, NULL},
};

/* A quantization in progress, for the callbacks. */
typedef struct quantization {
    const compiler_state *state;
    compiler_callbacks callbacks;
    xcc_quantizer *quantizer;
    PyObject *read; /* callable: batch number to a list of arrays */
} quantization;

static void report_progress(void *user, const char *what, double fraction)
{
    quantization *self = user;
    if (self->callbacks.failure[0] != NULL)
        return;
    callbacks_enter(&self->callbacks);
    PyObject *result =
        self->callbacks.progress != NULL ? PyObject_CallFunction(self->callbacks.progress, "sd", what, fraction) : NULL;
    if (PyErr_Occurred() != NULL || PyErr_CheckSignals() < 0)
        callbacks_fail(&self->callbacks);
    Py_XDECREF(result);
    callbacks_leave(&self->callbacks);
}

static int store_batch(const quantization *self, PyObject *arrays, xcvm_value **inputs)
{
    const size_t count = xcc_quantizer_input_count(self->quantizer);
    if (!PyList_Check(arrays) || (size_t)PyList_Size(arrays) != count) {
        PyErr_Format(PyExc_TypeError, "a batch must be a list of %zu arrays", count);
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        const xcvm_value_info *input = xcc_quantizer_input_at(self->quantizer, i);
        inputs[i] = self->state->api->value_from_object(self->state->api->state, PyList_GetItem(arrays, (Py_ssize_t)i),
                                                        &input->type, input->name);
        if (inputs[i] == NULL) {
            while (i > 0)
                xcvm_value_release(inputs[--i]);
            return -1;
        }
    }
    return 0;
}

static xcvm_status read_batch(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    quantization *self = user;
    xcvm_status status = XCVM_OK;
    callbacks_enter(&self->callbacks);
    /* An exception of the progress function, or an interrupt, ends the work at the next batch. */
    PyObject *arrays =
        self->callbacks.failure[0] == NULL ? PyObject_CallFunction(self->read, "n", (Py_ssize_t)batch) : NULL;
    if (arrays == NULL || store_batch(self, arrays, inputs) < 0) {
        status = XCVM_CANCELLED;
        if (PyErr_Occurred() != NULL) {
            status = self->state->api->error_from_exception(error, "reading a batch");
            callbacks_fail(&self->callbacks);
        } else if (error != NULL) {
            *error = (xcvm_error){.status = status, .pc = -1, .message = "the work was cancelled"};
        }
    }
    Py_XDECREF(arrays);
    callbacks_leave(&self->callbacks);
    return status;
}

/* ---- Results ---- */

/* Appends an item, which it takes. */
static bool append(PyObject *list, PyObject *item)
{
    const bool good = item != NULL && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return good;
}

static PyObject *tensor_list(const xcc_quantizer *quantizer)
{
    PyObject *list = PyList_New(0);
    const xcc_quantizer_tensor_info *t;
    for (size_t i = 0; list != NULL && (t = xcc_quantizer_tensor_at(quantizer, i)) != NULL; i++)
        if (!append(list, Py_BuildValue("(ssdddddLddd)", t->name, t->op, t->low, t->high, t->least, t->greatest,
                                        t->scale, (long long)t->zero_point, t->sqnr, t->max_error, t->mean_error)))
            Py_CLEAR(list);
    return list;
}

static PyObject *node_list(const xcc_quantizer *quantizer)
{
    PyObject *list = PyList_New(0);
    const xcc_quantizer_node_info *n;
    for (size_t i = 0; list != NULL && (n = xcc_quantizer_node_at(quantizer, i)) != NULL; i++)
        if (!append(list, Py_BuildValue("(ssNsdNdddNd)", n->name, n->op, PyBool_FromLong(n->quantized), n->reason,
                                        n->harm, PyBool_FromLong(n->kept), n->max_error_after, n->mean_error_after,
                                        n->agree_after, PyBool_FromLong(n->weights_alone), n->weights_harm)))
            Py_CLEAR(list);
    return list;
}

static PyObject *output_list(const xcc_quantizer *quantizer)
{
    PyObject *list = PyList_New(0);
    const xcc_quantizer_output_info *o;
    for (size_t i = 0; list != NULL && (o = xcc_quantizer_output_at(quantizer, i)) != NULL; i++)
        if (!append(list,
                    Py_BuildValue("(sddddddNdd)", o->name, o->least, o->greatest, o->max_error, o->mean_error, o->sqnr,
                                  o->agree, PyBool_FromLong(o->decisions), o->predicted_error, o->predicted_agree)))
            Py_CLEAR(list);
    return list;
}

static PyObject *report_dict(const xcc_quantizer *quantizer)
{
    xcc_quantizer_report r = {.size = sizeof r};
    xcc_quantizer_get_report(quantizer, &r);
    return Py_BuildValue(
        "{snsnsnsnsnsnsKsKsnsnsnsKsnsisnsn}", "tensor_count", (Py_ssize_t)r.tensor_count, "node_count",
        (Py_ssize_t)r.node_count, "quantized_nodes", (Py_ssize_t)r.quantized_nodes, "folded_normalizations",
        (Py_ssize_t)r.folded_normalizations, "equalized_pairs", (Py_ssize_t)r.equalized_pairs, "calibration_batches",
        (Py_ssize_t)r.calibration_batches, "bytes_before", (unsigned long long)r.bytes_before, "bytes_after",
        (unsigned long long)r.bytes_after, "kept_nodes", (Py_ssize_t)r.kept_nodes, "judged_nodes",
        (Py_ssize_t)r.judged_nodes, "tried_models", (Py_ssize_t)r.tried_models, "search_ns",
        (unsigned long long)r.search_ns, "measured_batches", (Py_ssize_t)r.measured_batches, "method", (int)r.method,
        "inference_nodes", (Py_ssize_t)r.inference_nodes, "weights_alone_nodes", (Py_ssize_t)r.weights_alone_nodes);
}

/* ---- The function ---- */

static xcvm_status create(const model_source *source, const char *path, const xcc_quantizer_options *options,
                          xcc_quantizer **quantizer, xcvm_error *error)
{
    return path != NULL
               ? xcc_quantizer_create_file(path, options, quantizer, error)
               : xcc_quantizer_create(source->buffer.buf, (size_t)source->buffer.len, options, quantizer, error);
}

/* `prepare` receives the inputs of the model and returns (batch_count, read), or None for no data. */
static PyObject *quantize(quantization *self, const model_source *source, xcc_quantizer_options *options,
                          PyObject *prepare)
{
    xcvm_error error = {.status = XCVM_OK, .pc = -1};
    const char *path = source->path != NULL ? PyBytes_AsString(source->path) : NULL;
    callbacks_begin_once(self->state, &self->callbacks);
    const xcvm_status created = create(source, path, options, &self->quantizer, &error);
    callbacks_end_once(self->state, &self->callbacks);
    if (created != XCVM_OK || self->callbacks.failure[0] != NULL)
        return callbacks_raise(self->state, &self->callbacks, &error);
    const capi *api = self->state->api;
    PyObject *inputs = PyList_New(0), *data = NULL, *result = NULL;
    for (size_t i = 0; inputs != NULL && i < xcc_quantizer_input_count(self->quantizer); i++)
        if (!append(inputs, api->parameter_from(api->state, xcc_quantizer_input_at(self->quantizer, i))))
            Py_CLEAR(inputs);
    data = inputs != NULL ? PyObject_CallFunctionObjArgs(prepare, inputs, NULL) : NULL;
    Py_ssize_t count = 0;
    byte_buffer model = {0};
    if (data != NULL && (data == Py_None || PyArg_ParseTuple(data, "nO;prepare", &count, &self->read))) {
        const xcc_calibration calibration = {.batch_count = (size_t)count, .read = read_batch, .user = self};
        callbacks_begin_once(self->state, &self->callbacks);
        xcvm_status status = xcc_quantizer_run(self->quantizer, data != Py_None ? &calibration : NULL, &error);
        if (status == XCVM_OK)
            status = xcc_quantizer_save(self->quantizer, byte_buffer_sink(&model), &error);
        callbacks_end_once(self->state, &self->callbacks);
        if (status != XCVM_OK || self->callbacks.failure[0] != NULL)
            callbacks_raise(self->state, &self->callbacks, &error);
        else
            result =
                Py_BuildValue("(NNNNN)", byte_buffer_take(&model), report_dict(self->quantizer),
                              tensor_list(self->quantizer), node_list(self->quantizer), output_list(self->quantizer));
    }
    free(model.data);
    Py_XDECREF(data);
    Py_XDECREF(inputs);
    return result;
}

PyObject *compiler_quantize(PyObject *module, PyObject *args)
{
    quantization self = {.state = PyModule_GetState(module)};
    PyObject *model, *dict, *functions, *prepare, *result = NULL;
    if (!PyArg_ParseTuple(args, "OO!O!O:quantize", &model, &PyDict_Type, &dict, &PyDict_Type, &functions, &prepare))
        return NULL;
    xcc_quantizer_options options = {.size = sizeof options};
    option_memory memory = {0};
    model_source source = {0};
    if (option_memory_read(&memory, table, COUNT_OF(table), &options, dict, "quantize") == 0 &&
        callbacks_read(&self.callbacks, functions) == 0 && model_source_read(&source, model) == 0) {
        options.progress = (xcc_progress){report_progress, &self};
        options.cancelled = &self.callbacks.cancelled;
        result = quantize(&self, &source, &options, prepare);
    }
    xcc_quantizer_destroy(self.quantizer);
    model_source_release(&source);
    option_memory_release(&memory);
    return result;
}
