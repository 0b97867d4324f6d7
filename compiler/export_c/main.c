/* Export as C: the main that reads inputs from files, one run after the other, and writes outputs to standard output.
 */
#include "compiler/export_c/export_c.h"

/* An input that has come to its end after one run is the same for all that follow. */
static const char functions[] =
    "\n/* The next `bytes` bytes of a file: 1, 0 at its end, or -1 if it ends within them. */\n"
    "static int xc_read_next(FILE *file, void *to, size_t bytes)\n{\n"
    "    const size_t count = fread(to, 1, bytes, file);\n"
    "    return count == bytes && bytes > 0 ? 1 : count == 0 ? 0 : -1;\n}\n\n"
    "static FILE *xc_open(const char *path, const char *how)\n{\n"
    "    FILE *const file = fopen(path, how);\n"
    "    if (file == NULL)\n        fprintf(stderr, \"%s: cannot be opened\\n\", path);\n"
    "    return file;\n}\n";

static void put_static(xcc_c_export *x, xcc_c_text *to, const xcvm_value *v, const char *name)
{
    xcc_c_put(to, "    static %s %s[%s_%s_ELEMENTS + 1];\n", xcc_c_type((xcvm_dtype)v->dtype), name,
              xcc_c_upper(x, x->name), xcc_c_upper(x, name));
}

static void write_weights(const xcc_c_export *x, xcc_c_text *to, const char *macro)
{
    if (x->options->weights.call == NULL)
        return;
    xcc_c_put(to,
              "    if ((file = xc_open(arguments[next], \"rb\")) == NULL)\n        return 1;\n"
              "    if (xc_read_next(file, at, %s_WEIGHTS_BYTES) != (%s_WEIGHTS_BYTES > 0) || fgetc(file) != EOF) {\n"
              "        fprintf(stderr, \"%%s: %%lu bytes are expected\\n\", arguments[next], (unsigned "
              "long)%s_WEIGHTS_BYTES);\n        return 1;\n    }\n    fclose(file);\n    next++;\n",
              macro, macro, macro);
}

/* States are read from and written to a file one after another. */
static void write_states(const xcc_c_export *x, xcc_c_text *to, const char *macro, bool out)
{
    if (x->image->state_count == 0)
        return;
    xcc_c_put(
        to,
        "    if (%s != NULL) {\n        if ((file = xc_open(%s, \"%s\")) == NULL)\n            return 1;\n"
        "        for (i = 0; i < %s_STATES; i++) {\n"
        "            const %s_state state = %s_state_at(&context, i);\n"
        "            if (%s(state.elements, 1, state.bytes, file) != state.bytes) {\n"
        "                fprintf(stderr, \"%%s: state %%s cannot be %s\\n\", %s, state.name);\n"
        "                return 1;\n            }\n        }\n        if (fclose(file) != 0)\n            return 1;\n"
        "    }\n",
        out ? "save" : "load", out ? "save" : "load", out ? "wb" : "rb", macro, x->name, x->name,
        out ? "fwrite" : "fread", out ? "written" : "read", out ? "save" : "load");
}

static void write_usage(xcc_c_export *x, xcc_c_text *to)
{
    const bool separate = x->options->weights.call != NULL, states = x->image->state_count > 0;
    if (states)
        xcc_c_put(to, "    while (next + 1 < count && (strcmp(arguments[next], \"--load\") == 0 || "
                      "strcmp(arguments[next], \"--save\") == 0)) {\n"
                      "        if (arguments[next][2] == 'l')\n            load = arguments[next + 1];\n"
                      "        else\n            save = arguments[next + 1];\n        next += 2;\n    }\n");
    xcc_c_put(to, "    if (count - next != %zu) {\n        fprintf(stderr, \"usage: %%s%s%s",
              x->image->input_count + separate, states ? " [--load STATES] [--save STATES]" : "",
              separate ? " WEIGHTS" : "");
    for (size_t i = 0; i < x->image->input_count; i++)
        xcc_c_put(to, " %s", xcc_c_upper(x, xcc_c_input_name(x, i)));
    xcc_c_put(to, "\\n\", count > 0 ? arguments[0] : \"%s\");\n        return 2;\n    }\n", x->name);
}

/* The inputs of run `runs`; there are none if all files have ended. */
static void write_reading(xcc_c_export *x, xcc_c_text *to)
{
    const size_t inputs = x->image->input_count;
    xcc_c_put(to, "        int more = runs == 0;\n");
    for (size_t i = 0; i < inputs; i++)
        xcc_c_put(to,
                  "        got[%zu] = xc_read_next(files[%zu], %s, %zu);\n"
                  "        more |= got[%zu] > 0;\n",
                  i, i, xcc_c_input_name(x, i), x->inputs[i].type.bytes, i);
    xcc_c_put(to, "        if (!more)\n            break;\n");
    if (inputs == 0)
        return;
    xcc_c_put(to,
              "        for (i = 0; i < %zu; i++) {\n            held[i] += got[i] > 0;\n"
              "            if (got[i] < 0 || (got[i] == 0 && sizes[i] > 0 && held[i] != 1)) {\n"
              "                fprintf(stderr, \"%%s: %%lu bytes are expected for each run\\n\", arguments[next + "
              "(int)i], (unsigned long)sizes[i]);\n                return 1;\n            }\n        }\n",
              inputs);
}

/* Variables of main: the context, memory of inputs, outputs and weights, and files. */
static void write_variables(xcc_c_export *x, xcc_c_text *to, const char *macro)
{
    const size_t inputs = x->image->input_count, outputs = x->image->output_count;
    const bool separate = x->options->weights.call != NULL, states = x->image->state_count > 0;
    xcc_c_put(to, "    static %s_context context;\n", x->name);
    if (separate)
        xcc_c_put(to,
                  "    static union {\n        double aligned;\n        unsigned char bytes[%s_WEIGHTS_BYTES + 64];\n  "
                  "  } weights;\n"
                  "    unsigned char *const at = weights.bytes + (64 - (uintptr_t)weights.bytes %% 64);\n",
                  macro);
    for (size_t i = 0; i < inputs; i++)
        put_static(x, to, &x->inputs[i].type, xcc_c_input_name(x, i));
    for (size_t i = 0; i < outputs; i++)
        put_static(x, to, xcc_c_output_value(x, i), xcc_c_output_name(x, i));
    if (inputs > 0) {
        xcc_c_put(to, "    static const size_t sizes[%zu] = {", inputs);
        for (size_t i = 0; i < inputs; i++)
            xcc_c_put(to, "%s%zu", i > 0 ? ", " : "", x->inputs[i].type.bytes);
        xcc_c_put(to, "};\n    FILE *files[%zu];\n    size_t held[%zu] = {0};\n    int got[%zu];\n", inputs, inputs,
                  inputs);
    }
    if (separate || states)
        xcc_c_put(to, "    FILE *file;\n");
    if (states)
        xcc_c_put(to, "    const char *load = NULL, *save = NULL;\n");
    xcc_c_put(to, "    size_t i, runs;\n    int next = 1, status;\n");
}

/* Runs, as long as a file has inputs. */
static void write_runs(xcc_c_export *x, xcc_c_text *to)
{
    const size_t inputs = x->image->input_count, outputs = x->image->output_count;
    xcc_c_put(to, "    for (runs = 0;; runs++) {\n");
    write_reading(x, to);
    xcc_c_put(to, "        status = %s_run(&context", x->name);
    for (size_t i = 0; i < inputs; i++)
        xcc_c_put(to, ", %s", xcc_c_input_name(x, i));
    for (size_t i = 0; i < outputs; i++)
        xcc_c_put(to, ", %s", xcc_c_output_name(x, i));
    xcc_c_put(to,
              ");\n        if (status != 0) {\n            fprintf(stderr, \"%%s\\n\", %s_error(status));\n"
              "            return 1;\n        }\n",
              x->name);
    for (size_t i = 0; i < outputs; i++)
        xcc_c_put(to, "        if (fwrite(%s, 1, %zu, stdout) != %zu)\n            return 1;\n",
                  xcc_c_output_name(x, i), xcc_c_output_value(x, i)->bytes, xcc_c_output_value(x, i)->bytes);
    xcc_c_put(to, "    }\n");
}

void xcc_c_write_main(xcc_c_export *x, xcc_c_text *to)
{
    const size_t inputs = x->image->input_count;
    const bool separate = x->options->weights.call != NULL;
    const char *const macro = xcc_c_upper(x, x->name);
    xcc_c_put_bytes(to, functions, sizeof functions - 1);
    xcc_c_put(
        to,
        "\n/* Each input's bytes come from a file, the outputs' go to standard output. Files may hold those of several "
        "runs, one\n * behind the other; one that holds those of one run is for all. */\n"
        "int main(int count, char **arguments)\n{\n");
    write_variables(x, to, macro);
    write_usage(x, to);
    write_weights(x, to, macro);
    if (inputs > 0)
        xcc_c_put(
            to,
            "    for (i = 0; i < %zu; i++)\n        if ((files[i] = xc_open(arguments[next + (int)i], \"rb\")) == "
            "NULL)\n            return 1;\n",
            inputs);
    else
        xcc_c_put(to, "    i = 0;\n    (void)i;\n    (void)xc_open;\n    (void)xc_read_next;\n");
    xcc_c_put(to, "    %s_init(&context%s);\n", x->name, separate ? ", at" : "");
    write_states(x, to, macro, false);
    write_runs(x, to);
    write_states(x, to, macro, true);
    xcc_c_put(to, "    return fflush(stdout) == 0 ? 0 : 1;\n}\n");
}
