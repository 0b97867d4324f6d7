/* Export as C: the functions that a WebAssembly module exports, and the ES module with TypeScript declarations that
 * calls them (javascript/). */
#include "compiler/export_c/export_c.h"

#include <inttypes.h>
#include <string.h>

/* The text of javascript/source.js and network.js, and of network.d.ts. */
extern const char xcc_network_script[], xcc_network_types[];

/* Kinds in the order of xcvm_value's first parameter. */
static const char *const kinds[XCC_C_KINDS] = {"inputs", "outputs", "states"};
static const char *const interfaces[XCC_C_KINDS] = {"Inputs", "Outputs", "States"};

static size_t value_count(const xcc_c_export *x, int kind)
{
    return kind == XCC_C_INPUTS    ? x->image->input_count
           : kind == XCC_C_OUTPUTS ? x->image->output_count
                                   : x->image->state_count;
}

static const xcvm_value *value_at(const xcc_c_export *x, int kind, size_t i)
{
    return kind == XCC_C_INPUTS    ? &x->inputs[i].type
           : kind == XCC_C_OUTPUTS ? xcc_c_output_value(x, i)
                                   : &x->states[i].type;
}

static const char *model_name(const xcc_c_export *x, int kind, size_t i)
{
    return kind == XCC_C_INPUTS    ? x->image->inputs[i].name
           : kind == XCC_C_OUTPUTS ? x->image->outputs[i].name
                                   : x->image->states[i].declared.name;
}

/* The memory of an input or output. */
static const char *variable(xcc_c_export *x, int kind, size_t i)
{
    return xcc_c_format(x, "xc_memory_%s", kind == XCC_C_INPUTS ? xcc_c_input_name(x, i) : xcc_c_output_name(x, i));
}

/* Relates the ES module to its WebAssembly module: FNV-1a of the program. */
static int32_t identity(const xcc_c_export *x)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < x->file_bytes; i++)
        hash = (hash ^ (unsigned char)x->file[i]) * 16777619u;
    return (int32_t)(hash & INT32_MAX);
}

static void write_memory(xcc_c_export *x, xcc_c_text *to)
{
    xcc_c_put(to, "\nstatic %s_context xc_memory;\n", x->name);
    for (int kind = XCC_C_INPUTS; kind <= XCC_C_OUTPUTS; kind++)
        for (size_t i = 0; i < value_count(x, kind); i++) {
            const size_t count = xcvm_element_count(value_at(x, kind, i));
            xcc_c_put(to, "static %s %s[%zu] __attribute__((aligned(64)));\n",
                      xcc_c_type((xcvm_dtype)value_at(x, kind, i)->dtype), variable(x, kind, i), count > 0 ? count : 1);
        }
    xcc_c_put(to,
              "static const unsigned char xc_weights[] __attribute__((aligned(64))) = {\n#embed \"%s\" "
              "if_empty(0)\n};\n",
              x->options->weights_name);
}

static void write_value_function(xcc_c_export *x, xcc_c_text *to)
{
    xcc_c_put(to, "\nXC_EXPORT(value) void *xcvm_value(int kind, int index)\n{\n    switch (kind * 65536 + index) {\n");
    for (int kind = 0; kind < XCC_C_KINDS; kind++)
        for (size_t i = 0; i < value_count(x, kind); i++)
            xcc_c_put(to, "    case %d * 65536 + %zu:\n        return %s;\n", kind, i,
                      kind == XCC_C_STATES ? xcc_c_format(x, "xc_memory.%s", xcc_c_state_name(x, i))
                                           : variable(x, kind, i));
    xcc_c_put(to, "    default:\n        return NULL;\n    }\n}\n");
}

void xcc_c_write_exports(xcc_c_export *x, xcc_c_text *to)
{
    const char *const name = x->name;
    write_memory(x, to);
    xcc_c_put(to,
              "\n#define XC_EXPORT(name) __attribute__((export_name(\"xcvm_\" #name)))\n"
              "XC_EXPORT(network) int xcvm_network(void) { return %" PRId32 "; }\n"
              "XC_EXPORT(init) void xcvm_init(void) { %s_init(&xc_memory, xc_weights); }\n"
              "XC_EXPORT(error) const char *xcvm_error(int status) { return %s_error(status); }\n",
              identity(x), name, name);
    if (x->loops)
        xcc_c_put(to, "XC_EXPORT(max_steps) void xcvm_max_steps(uint64_t steps) { xc_memory.max_steps = steps; }\n");
    if (x->draws)
        xcc_c_put(to, "XC_EXPORT(seed) void xcvm_seed(uint64_t seed) { xc_memory.random = seed; }\n");
    write_value_function(x, to);
    xcc_c_put(to, "\nXC_EXPORT(run) int xcvm_run(void)\n{\n    return %s_run(&xc_memory", name);
    for (int kind = XCC_C_INPUTS; kind <= XCC_C_OUTPUTS; kind++)
        for (size_t i = 0; i < value_count(x, kind); i++)
            xcc_c_put(to, ", %s", variable(x, kind, i));
    xcc_c_put(to, ");\n}\n");
}

/* The typed array of an element type; of types without one, that of their bits. */
static const char *array_type(xcvm_dtype dtype)
{
    switch (dtype) {
    case XCVM_F32:
        return "Float32Array";
    case XCVM_F64:
        return "Float64Array";
    case XCVM_I8:
        return "Int8Array";
    case XCVM_I16:
        return "Int16Array";
    case XCVM_U16:
    case XCVM_F16:
    case XCVM_BF16:
        return "Uint16Array";
    case XCVM_I32:
        return "Int32Array";
    case XCVM_U32:
        return "Uint32Array";
    case XCVM_I64:
        return "BigInt64Array";
    case XCVM_U64:
        return "BigUint64Array";
    default:
        return "Uint8Array";
    }
}

/* A string of JavaScript. The bytes are UTF-8, as the names of a verified program. */
static void put_string(xcc_c_text *to, const char *text)
{
    xcc_c_put(to, "'");
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == '\'' || *text == '\\' || *text == '\x7f')
            xcc_c_put(to, "\\x%02x", (unsigned)(unsigned char)*text);
        else
            xcc_c_put_bytes(to, text, 1);
    xcc_c_put(to, "'");
}

static void put_dims(xcc_c_text *to, const xcvm_value *v)
{
    xcc_c_put(to, "[");
    for (int i = 0; i < v->rank; i++)
        xcc_c_put(to, "%s%" PRId64, i > 0 ? ", " : "", v->dims[i]);
    xcc_c_put(to, "]");
}

void xcc_c_write_script(xcc_c_export *x, xcc_c_text *to)
{
    xcc_c_put(to, "/* A network as WebAssembly, written by xcvm compile --emit wasm. */\n\nconst ADDRESS = new URL(");
    put_string(to, xcc_c_format(x, "./%s", x->options->module_name));
    xcc_c_put(to, ", import.meta.url);\n/* Values: name, dtype, dims, typed array, bytes. */\nconst VALUES = {\n");
    for (int kind = 0; kind < XCC_C_KINDS; kind++) {
        xcc_c_put(to, "    %s: [", kinds[kind]);
        for (size_t i = 0; i < value_count(x, kind); i++) {
            const xcvm_value *v = value_at(x, kind, i);
            xcc_c_put(to, "%s[", i > 0 ? ", " : "");
            put_string(to, model_name(x, kind, i));
            xcc_c_put(to, ", '%s', ", xcvm_dtype_name((xcvm_dtype)v->dtype));
            put_dims(to, v);
            xcc_c_put(to, ", %s, %zu]", array_type((xcvm_dtype)v->dtype), v->bytes);
        }
        xcc_c_put(to, "],\n");
    }
    xcc_c_put(to, "    identity: %" PRId32 ", random: %s, steps: %zu,\n};\n", identity(x), x->draws ? "true" : "false",
              x->loops ? xcc_c_steps_status(x) : 0);
    xcc_c_put_bytes(to, xcc_network_script, strlen(xcc_network_script));
}

void xcc_c_write_types(xcc_c_export *x, xcc_c_text *to)
{
    xcc_c_put(to, "/* Types of a network as WebAssembly, written by xcvm compile --emit wasm. */\n\n");
    for (int kind = 0; kind < XCC_C_KINDS; kind++) {
        xcc_c_put(to, "export interface %s {\n", interfaces[kind]);
        for (size_t i = 0; i < value_count(x, kind); i++) {
            const xcvm_value *v = value_at(x, kind, i);
            xcc_c_put(to, "    /** ");
            put_dims(to, v);
            xcc_c_put(to, " */\n    ");
            put_string(to, model_name(x, kind, i));
            xcc_c_put(to, ": Tensor<'%s', %s>;\n", xcvm_dtype_name((xcvm_dtype)v->dtype),
                      array_type((xcvm_dtype)v->dtype));
        }
        xcc_c_put(to, "}\n");
    }
    xcc_c_put_bytes(to, xcc_network_types, strlen(xcc_network_types));
}
