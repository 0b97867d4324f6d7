/* Exports text cases as C: export_cases FOLDER TARGET STEP CASE_FILE... writes case_<n>.c and .h for every STEP-th case
 * of the files that can be exported, and cases.c, a program that runs them all and compares their outputs and states
 * with those of the machine. TARGET is the instruction set that vectors are for, "any" for none. What is refused is
 * listed in FOLDER/refused.txt. Cases that the machine fails must fail in C, too. Of each file the first case is one of
 * them, so that every instruction is. `export_cases --without-c` lists the instructions that there is no C for.
 * `export_cases --programs FOLDER CASE_FILE...` writes the programs of all cases. */
#include "compiler/export_c/export_c.h"
#include "ops/table/table.h"
#include "tests/case_text.h"
#include "tests/support.h"
#include "xcvm/compiler.h"
#include "xcvm/export_c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct export_job {
    const char *folder, *target;
    FILE *cases, *refused, *table;
    size_t seen, step, exported, left;
} export_job;

static FILE *open_path(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

static FILE *open_file(const export_job *w, const char *name)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    return open_path(path);
}

static bool file_sink(void *user, const void *bytes, size_t count) { return fwrite(bytes, 1, count, user) == count; }

/* ---- The VM's results of a case ---- */

typedef struct result {
    xcvm_program *program;
    xcvm_session *session;
    bool failed; /* while it ran */
} result;

static bool bind(const test_case *c, const result *r, xcvm_error *error)
{
    for (size_t i = 0; i < c->binding_count; i++) {
        const xcvm_value *v = &c->bindings[i].tensor;
        xcvm_value *value;
        size_t index = 0;
        while (strcmp(xcvm_program_input_at(r->program, index)->name, c->bindings[i].input) != 0)
            index++;
        if (v->dtype == XCVM_STRING || xcvm_tensor_wrap((xcvm_dtype)v->dtype, v->rank, v->dims, v->data,
                                                        (xcvm_finalizer){0}, &value, error) != XCVM_OK)
            return false;
        const xcvm_status status = xcvm_session_set_input(r->session, index, value, error);
        xcvm_value_release(value);
        if (status != XCVM_OK)
            return false;
    }
    return true;
}

static bool run_case(const test_case *c, const test_bytes *file, result *r)
{
    xcvm_error error;
    const xcvm_load_options load = {.size = sizeof load};
    const xcvm_session_options options = {.size = sizeof options, .threads = 1, .seed = 1};
    const xcvm_run_options limits = {.size = sizeof limits, .timeout_ns = UINT64_C(5000000000)};
    if (xcvm_program_load(file->at, file->length, &load, &r->program, &error) != XCVM_OK ||
        xcvm_session_create(r->program, &options, &r->session, &error) != XCVM_OK || !bind(c, r, &error))
        return false;
    r->failed = xcvm_session_run(r->session, &limits, &error) != XCVM_OK;
    return !r->failed || error.status == XCVM_OUT_OF_RANGE || error.status == XCVM_SHAPE_MISMATCH;
}

/* ---- Writing ---- */

static const char *type_of(xcvm_dtype dtype)
{
    switch (dtype) {
    case XCVM_F32:
        return "float";
    case XCVM_F64:
        return "double";
    case XCVM_I8:
        return "int8_t";
    case XCVM_I16:
        return "int16_t";
    case XCVM_I32:
        return "int32_t";
    case XCVM_I64:
        return "int64_t";
    case XCVM_U16:
        return "uint16_t";
    case XCVM_U32:
        return "uint32_t";
    case XCVM_U64:
        return "uint64_t";
    default:
        return "uint8_t";
    }
}

static void write_bytes(FILE *to, const char *name, size_t index, const void *data, size_t bytes)
{
    fprintf(to,
            "    static const union {\n        unsigned char bytes[%zu];\n        double aligned;\n    } %s_%zu = {{",
            bytes > 0 ? bytes : 1, name, index);
    for (size_t i = 0; i < bytes; i++)
        fprintf(to, "%s%u", i > 0 ? "," : "", ((const unsigned char *)data)[i]);
    fprintf(to, "%s}};\n", bytes == 0 ? "0" : "");
}

static const xcvm_value *binding_of(const test_case *c, const char *name)
{
    for (size_t i = 0; i < c->binding_count; i++)
        if (strcmp(c->bindings[i].input, name) == 0)
            return &c->bindings[i].tensor;
    return NULL;
}

/* Returns true if the context contains the state of a random generator. */
static bool draws(const export_job *w, const char *header_name)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/%s", w->folder, header_name);
    test_bytes header = test_file_read(path);
    bool found = false;
    for (size_t i = 0; i + 16 <= header.length && !found; i++)
        found = memcmp(header.at + i, "uint64_t random;", 16) == 0;
    test_bytes_free(&header);
    return found;
}

/* Compares elements with those of the VM. `at` is the address in C, and `name` is the name of the expectation. */
static void write_comparison(FILE *to, const xcvm_value *v, const char *at, const char *name, size_t i)
{
    const xcvm_dtype dtype = xcvm_value_dtype(v);
    const char *kind = dtype == XCVM_F32 ? "f32" : dtype == XCVM_F64 ? "f64" : NULL;
    if (kind != NULL)
        fprintf(to, "    wrong |= differ_%s(%s, %s_%zu.bytes, %zu);\n", kind, at, name, i, xcvm_value_count(v));
    else
        fprintf(to, "    wrong |= memcmp(%s, %s_%zu.bytes, %zu) != 0;\n", at, name, i, xcvm_value_bytes(v));
}

static void write_case(const export_job *w, const test_case *c, const char *path, const result *r,
                       const char *header_name)
{
    const size_t n = w->exported, inputs = xcvm_program_input_count(r->program),
                 outputs = xcvm_program_output_count(r->program);
    fprintf(w->cases,
            "#include \"case_%zu.h\"\nstatic int run_%zu(void)\n{\n    static case_%zu_context context;\n"
            "    int status, wrong = 0;\n",
            n, n, n);
    for (size_t i = 0; i < inputs; i++) {
        const xcvm_value *v = binding_of(c, xcvm_program_input_at(r->program, i)->name);
        write_bytes(w->cases, "in", i, v->data, v->bytes);
    }
    for (size_t i = 0; i < outputs && !r->failed; i++) {
        const xcvm_value *v = xcvm_session_get_output(r->session, i);
        write_bytes(w->cases, "expected", i, xcvm_value_data(v), xcvm_value_bytes(v));
    }
    const size_t states = r->failed ? 0 : xcvm_program_state_count(r->program);
    for (size_t i = 0; i < states; i++) {
        const xcvm_value *v = xcvm_session_get_state(r->session, i);
        write_bytes(w->cases, "state", i, xcvm_value_data(v), xcvm_value_bytes(v));
    }
    for (size_t i = 0; i < outputs; i++)
        fprintf(w->cases,
                "    static union {\n        unsigned char bytes[%zu];\n        double aligned;\n    } out_%zu;\n",
                r->failed ? (size_t)1 << 19 : xcvm_value_bytes(xcvm_session_get_output(r->session, i)) + 1, i);
    fprintf(w->cases, "    case_%zu_init(&context);\n", n);
    if (draws(w, header_name))
        fprintf(w->cases, "    context.random = 1;\n");
    fprintf(w->cases, "    status = case_%zu_run(&context", n);
    for (size_t i = 0; i < inputs; i++)
        fprintf(w->cases, ", (const %s *)(const void *)&in_%zu",
                type_of(xcvm_program_input_at(r->program, i)->type.dtype), i);
    for (size_t i = 0; i < outputs; i++)
        fprintf(w->cases, ", (void *)&out_%zu", i);
    fprintf(w->cases, ");\n");
    if (r->failed)
        fprintf(w->cases, "    wrong = status == 0;\n");
    else
        fprintf(w->cases, "    wrong = status != 0;\n");
    char at[80];
    for (size_t i = 0; i < outputs; i++) {
        if (r->failed) {
            fprintf(w->cases, "    (void)out_%zu;\n", i);
            continue;
        }
        const xcvm_value *v = xcvm_session_get_output(r->session, i);
        snprintf(at, sizeof at, "(const void *)&out_%zu", i);
        write_comparison(w->cases, v, at, "expected", i);
    }
    for (size_t i = 0; i < states; i++) {
        snprintf(at, sizeof at, "case_%zu_state_at(&context, %zu).elements", n, i);
        write_comparison(w->cases, xcvm_session_get_state(r->session, i), at, "state", i);
    }
    fprintf(w->cases, "    return wrong;\n}\n");
    const char *base = strrchr(path, '/');
    fprintf(w->table, "    {run_%zu, \"%s:%d: %s\"},\n", n, base != NULL ? base + 1 : path, c->line, c->name);
}

/* Returns true if the case's outputs are numbers that do not depend on random numbers. */
static bool is_comparable(const test_case *c, const result *r)
{
    for (size_t i = 0; i < xcvm_program_input_count(r->program); i++)
        if (binding_of(c, xcvm_program_input_at(r->program, i)->name) == NULL)
            return false;
    for (size_t i = 0; i < xcvm_program_output_count(r->program); i++)
        if (!r->failed && xcvm_session_get_output(r->session, i) == NULL)
            return false;
    return true;
}

static void export_case(export_job *w, const test_case *c, const char *path, const test_bytes *file)
{
    char name[64], source_name[80], header_name[80], full[1100];
    xcvm_error error;
    result r = {NULL, NULL, false};
    if (!run_case(c, file, &r) || !is_comparable(c, &r)) {
        w->left++;
    } else {
        snprintf(name, sizeof name, "case_%zu", w->exported);
        snprintf(source_name, sizeof source_name, "%s.c", name);
        snprintf(header_name, sizeof header_name, "%s.h", name);
        FILE *source = open_file(w, source_name), *header = open_file(w, header_name);
        const xcc_export_c_options options = {.size = sizeof options,
                                              .name = name,
                                              .header_name = header_name,
                                              .target = w->target,
                                              .source = {file_sink, source},
                                              .header = {file_sink, header}};
        const xcvm_status status = xcc_export_c(file->at, file->length, &options, &error);
        fclose(source);
        fclose(header);
        if (status == XCVM_OK) {
            write_case(w, c, path, &r, header_name);
            w->exported++;
        } else {
            fprintf(w->refused, "%s:%d: %s: %s: %s\n", path, c->line, c->name, xcvm_status_name(status), error.message);
            snprintf(full, sizeof full, "%s/%s", w->folder, source_name);
            (void)remove(full);
            if (status != XCVM_UNSUPPORTED) {
                fprintf(stderr, "%s:%d: %s: %s\n", path, c->line, c->name, error.message);
                exit(1);
            }
        }
    }
    xcvm_session_destroy(r.session);
    xcvm_program_destroy(r.program);
}

/* Reads the next case. A file that cannot be read ends the program, so that no case is left out unseen. */
static bool next_case(case_file *f, const char *path, test_case *c)
{
    bool more;
    if (case_file_next(f, c, &more) == XCVM_OK)
        return more;
    fprintf(stderr, "%s: %s\n", path, f->error.message);
    exit(1);
}

static void open_cases(case_file *f, const char *path)
{
    if (case_file_open(f, path))
        return;
    perror(path);
    exit(1);
}

static void export_file(export_job *w, const char *path)
{
    static test_case c;
    xcvm_error error;
    case_file f;
    open_cases(&f, path);
    for (size_t i = 0; next_case(&f, path, &c); i++) {
        test_bytes file = {NULL, 0, 0};
        if (i % w->step == 0)
            w->seen++;
        if (i % w->step == 0 && case_assemble(&f, &c, &file, &error) == XCVM_OK)
            export_case(w, &c, path, &file);
        test_bytes_free(&file);
    }
    case_file_close(&f);
}

/* Writes the programs of a case file to FOLDER/program, and as texts without references to files to FOLDER/text. */
static void write_programs(const char *folder, const char *path)
{
    static test_case c;
    char name[1000];
    xcvm_error error;
    case_file f;
    const char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    const int length = (int)strcspn(base, ".");
    const xcvm_disassemble_options all = {.size = sizeof all, .literal_limit = SIZE_MAX};
    open_cases(&f, path);
    while (next_case(&f, path, &c)) {
        test_bytes program = {0};
        if (case_assemble(&f, &c, &program, &error) == XCVM_OK) {
            snprintf(name, sizeof name, "%s/program/%.*s-%d.bin", folder, length, base, c.line);
            FILE *file = open_path(name);
            if (!file_sink(file, program.at, program.length) || fclose(file) != 0)
                exit(1);
            snprintf(name, sizeof name, "%s/text/%.*s-%d.xcvm", folder, length, base, c.line);
            file = open_path(name);
            if (xcvm_disassemble(program.at, program.length, &all, (xcvm_sink){file_sink, file}, &error) != XCVM_OK ||
                fclose(file) != 0)
                exit(1);
        }
        test_bytes_free(&program);
    }
    case_file_close(&f);
}

static void list_without_c(void)
{
    static const int64_t numbers[] = {
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, onnx, summary) number,
#include "ops/instructions.def"
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!xcc_c_has_instruction(xcvm_schema_of(numbers[i])))
            puts(xcvm_schema_of(numbers[i])->name);
}

/* NaN equals NaN; numbers may differ by what sums in another order are rounded to. */
static const char head[] =
    "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n\n"
    "static int differs(double a, double b, double bound)\n{\n"
    "    return !(a == b || (a != a && b != b) || fabs(a - b) <= bound + bound * fabs(b));\n}\n"
    "static int differ_f32(const float *a, const void *bytes, size_t count)\n{\n"
    "    for (size_t i = 0; i < count; i++) {\n        float b;\n        memcpy(&b, (const char *)bytes + i * sizeof "
    "b, sizeof b);\n"
    "        if (differs((double)a[i], (double)b, 1e-4))\n            return 1;\n    }\n    return 0;\n}\n"
    "static int differ_f64(const double *a, const void *bytes, size_t count)\n{\n"
    "    for (size_t i = 0; i < count; i++) {\n        double b;\n        memcpy(&b, (const char *)bytes + i * sizeof "
    "b, sizeof b);\n"
    "        if (differs(a[i], b, 1e-8))\n            return 1;\n    }\n    return 0;\n}\n";

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "--without-c") == 0) {
        list_without_c();
        return 0;
    }
    if (count > 3 && strcmp(arguments[1], "--programs") == 0) {
        for (int i = 3; i < count; i++)
            write_programs(arguments[2], arguments[i]);
        return 0;
    }
    if (count < 5) {
        fprintf(stderr, "usage: export_cases FOLDER TARGET STEP CASE_FILE...\n");
        return 2;
    }
    export_job w = {.folder = arguments[1],
                    .target = strcmp(arguments[2], "any") != 0 ? arguments[2] : NULL,
                    .step = (size_t)strtoul(arguments[3], NULL, 10)};
    w.step = w.step > 0 ? w.step : 1;
    w.cases = open_file(&w, "cases.c");
    w.refused = open_file(&w, "refused.txt");
    w.table = tmpfile();
    if (w.table == NULL)
        return 1;
    fputs(head, w.cases);
    for (int i = 4; i < count; i++)
        export_file(&w, arguments[i]);
    fprintf(w.cases, "static const struct {\n    int (*run)(void);\n    const char *name;\n} cases[] = {\n");
    rewind(w.table);
    for (int c = fgetc(w.table); c != EOF; c = fgetc(w.table))
        fputc(c, w.cases);
    fprintf(
        w.cases,
        "};\n\nint main(void)\n{\n    unsigned failed = 0;\n    (void)differ_f32;\n    (void)differ_f64;\n    for "
        "(size_t i = 0; i < sizeof cases / sizeof *cases; "
        "i++)\n        if (cases[i].run()) {\n            printf(\"%%s\\n\", cases[i].name);\n            failed++;\n"
        "        }\n    printf(\"%%u of %%u exported cases differ\\n\", failed, (unsigned)(sizeof cases / sizeof "
        "*cases));\n    return failed > 0;\n}\n");
    printf("%zu of %zu cases are exported, %zu cannot be compared\n", w.exported, w.seen, w.left);
    fclose(w.table);
    return fclose(w.cases) != 0 || fclose(w.refused) != 0 || w.exported == 0;
}
