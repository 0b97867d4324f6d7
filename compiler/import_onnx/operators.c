/* The table of operators that the compiler supports. */
#include "compiler/import_onnx/operators.h"
#include "compiler/import_onnx/import_onnx.h"
#include "compiler/import_onnx/lower/lower.h"

#include <stdlib.h>

/* Operators that become the instruction of their name, by opcode, from the onnx column of the op definitions. */
#define ONNX(versions) versions
#define ONNX_NONE NULL
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    [number] = {{"", #name, onnx, #name}, xcc_lower_one_to_one},
static const xcc_operator_row one_to_one[XCVM_OPCODE_LIMIT] = {
#include "ops/instructions.def"
};

/* All others, in alphabetical order of domain and name. */
#define LOWERED(domain, name, versions, function, becomes) {{domain, #name, versions, becomes}, function},
static const xcc_operator_row lowered[] = {
#include "compiler/import_onnx/lower/operators.def"
};
enum { LOWERED_COUNT = sizeof lowered / sizeof *lowered };

static int compare(const void *key, const void *row)
{
    const xcc_operator_row *a = key, *b = row;
    const int domains = strcmp(a->info.domain, b->info.domain);
    return domains != 0 ? domains : strcmp(a->info.name, b->info.name);
}

static const xcc_operator_row *find(const char *domain, const char *name)
{
    const xcc_operator_row key = {.info = {.domain = domain, .name = name}};
    const xcc_operator_row *row = bsearch(&key, lowered, LOWERED_COUNT, sizeof *lowered, compare);
    const xcvm_schema *schema = row == NULL && *domain == '\0' ? xcvm_schema_named(name, strlen(name)) : NULL;
    return schema != NULL && one_to_one[schema->opcode].info.versions != NULL ? &one_to_one[schema->opcode] : row;
}

/* Chainer Compiler's own names begin with "Chainer", and its first models have no domain for them. */
const xcc_operator_row *xcc_operator_find(const char *domain, const char *name)
{
    static const char prefix[] = "Chainer", plus[] = "org.chainer";
    const xcc_operator_row *row = find(domain, name);
    if (row == NULL && strncmp(name, prefix, sizeof prefix - 1) == 0 && (*domain == '\0' || strcmp(domain, plus) == 0))
        row = find(plus, name + sizeof prefix - 1);
    return row;
}

const xcc_operator_info *xcc_operator_info_find(const char *domain, const char *name)
{
    const xcc_operator_row *row = xcc_operator_find(domain, name);
    return row != NULL ? &row->info : NULL;
}

size_t xcc_operator_count(void)
{
    size_t count = LOWERED_COUNT;
    for (size_t i = 0; i < XCVM_OPCODE_LIMIT; i++)
        count += one_to_one[i].info.versions != NULL;
    return count;
}

const xcc_operator_info *xcc_operator_at(size_t index)
{
    if (index < LOWERED_COUNT)
        return &lowered[index].info;
    size_t left = index - LOWERED_COUNT;
    for (size_t i = 0; i < XCVM_OPCODE_LIMIT; i++)
        if (one_to_one[i].info.versions != NULL && left-- == 0)
            return &one_to_one[i].info;
    return NULL;
}
