/*
 * The compiler's options by name: the only file that uses members of xcc_options. A new option is a line of the table.
 * xcvm/_options.py maps the names and values of the command's options to these.
 */
#include "compiler_module.h"

#define AT(member) offsetof(xcc_options, member)

static const option_row table[] = {
    {"dims", OPTION_DIMS, AT(dims), AT(dim_count), NULL},
    {"scheduling", OPTION_ENUM, AT(debug.scheduling), 0, "memory|naive"},
    {"optimization", OPTION_INT, AT(optimization), 0, NULL},
    {"strip", OPTION_BOOL, AT(strip), 0, NULL},
    {"dump_after", OPTION_TEXT, AT(debug.dump_after), 0, NULL},
    {"plain_layout", OPTION_BOOL, AT(debug.plain_layout), 0, NULL},
    {"kernel_library", OPTION_TEXT, AT(kernel_library.path), 0, NULL},
    {"keep_c", OPTION_TEXT, AT(kernel_library.source_path), 0, NULL},
    {"cc", OPTION_TEXT, AT(kernel_library.compiler), 0, NULL},
    {"cache_dir", OPTION_TEXT, AT(kernel_library.cache_dir), 0, NULL},
    {"target", OPTION_TEXT, AT(kernel_library.target), 0, NULL},
    {"tune", OPTION_BOOL, AT(tune), 0, NULL},
    {"weights", OPTION_DTYPE, AT(weights.dtype), 0, NULL},
    {"flush_subnormals", OPTION_BOOL, AT(flush_subnormals), 0, NULL},
    {"memory_limit", OPTION_SIZE, AT(limits.memory_bytes), 0, NULL},
    {"timeout_ns", OPTION_U64, AT(limits.timeout_ns), 0, NULL},
    {"backprop", OPTION_BOOL, AT(backprop), 0, NULL},
    {"loss", OPTION_TEXT, AT(loss), 0, NULL},
    {"wrt", OPTION_NAMES, AT(gradients.wrt), AT(gradients.wrt_count), NULL},
    {"states", OPTION_PAIRS, AT(states.pairs), AT(states.pair_count), NULL},
    {"train", OPTION_TEXT, AT(train), 0, NULL},
    {"groups", OPTION_GROUPS, AT(training.groups), AT(training.group_count), NULL},
    {"clip_norm", OPTION_REAL, AT(training.clip_norm), 0, NULL},
    {"clip_value", OPTION_REAL, AT(training.clip_value), 0, NULL},
    {"accumulate", OPTION_BOOL, AT(training.accumulate), 0, NULL},
    {"average", OPTION_REAL, AT(training.average), 0, NULL},
    {"loss_scale", OPTION_REAL, AT(training.loss_scale), 0, NULL},
    {"all_reduce", OPTION_BOOL, AT(training.all_reduce), 0, NULL},
    {"evaluate", OPTION_BOOL, AT(training.evaluate), 0, NULL},
    {"train_batch_normalization", OPTION_BOOL, AT(training.train_batch_normalization), 0, NULL},
    {"local_batch_normalization", OPTION_BOOL, AT(training.local_batch_normalization), 0, NULL},
    {"straight_through", OPTION_BOOL, AT(gradients.straight_through), 0, NULL},
    {"phase", OPTION_ENUM, AT(gradients.phase), 0, "whole|forward|backward"},
    {"order", OPTION_INT, AT(gradients.order), 0, NULL},
    {"vjps", OPTION_PAIRS, AT(gradients.vjps), AT(gradients.vjp_count), NULL},
    {"recompute", OPTION_TEXT, AT(recompute.method), 0, NULL},
    {"memory_budget", OPTION_U64, AT(recompute.memory_budget), 0, NULL},
    {"integer", OPTION_ENUM, AT(quantized.integers), 0, "auto|always|never"},
    {"onnx", OPTION_BOOL, AT(onnx_export.enabled), 0, NULL},
    {"onnx_data_location", OPTION_TEXT, AT(onnx_export.data_location), 0, NULL},
    {"weight_blocks", OPTION_ENUM, AT(weights.blocks), 0, "plain|q8|q4|q4a"},
    {"integer_activations", OPTION_BOOL, AT(weights.integer_activations), 0, NULL},
    {"compute", OPTION_DTYPE, AT(weights.compute), 0, NULL},
    {"caches", OPTION_DTYPE, AT(states.cache_dtype), 0, NULL},
    {"cache_rows", OPTION_I64, AT(states.cache_rows), 0, NULL},
    {"inference", OPTION_BOOL, AT(inference), 0, NULL},
    {"state_patterns", OPTION_NAMES, AT(states.patterns), AT(states.pattern_count), NULL},
    {"ignore_label", OPTION_I64, AT(training.ignore_label), 0, NULL},
    {"own_ignore_label", OPTION_BOOL, AT(training.own_ignore_label), 0, NULL},
    {"default_inputs", OPTION_NAMES, AT(default_inputs), AT(default_input_count), NULL},
};

PyObject *options_names(void)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < COUNT_OF(table); i++) {
        PyObject *name = PyUnicode_FromString(table[i].name);
        if (name == NULL || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

int options_read(compile_options *options, PyObject *dict)
{
    *options = (compile_options){.options = {.size = sizeof(xcc_options)}};
    return option_memory_read(&options->memory, table, COUNT_OF(table), &options->options, dict, "the compiler");
}

void options_release(compile_options *options) { option_memory_release(&options->memory); }
