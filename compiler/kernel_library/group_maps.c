/* Maps: which nodes are element-wise maps of f32, and of what. */
#include "compiler/kernel_library/kernel_library.h"

#include <math.h>
#include <string.h>

#include "ops/elementwise/formulas.h"

typedef struct known_map {
    xcvm_opcode opcode;
    const char *function;
} known_map;

/* Functions of ops/elementwise/simd/maps.h. GeluTanh is a form of the instruction Gelu. */
#define ENTRY_EACH(Name, formula) {XCVM_OP_##Name, #Name},
#define ENTRY_SMALL(Name, formula) ENTRY_EACH(Name, formula)
#define ENTRY_PADDED(Name, formula) ENTRY_EACH(Name, formula)
#define ENTRY_PERIODIC(Name, function, general)
#define ENTRY_REMAINDER(Name, formula)
#define ENTRY_NONE(Name, nothing)
#define OF_ONE_PLAIN(Name, f32) XCVM_BY_KIND(ENTRY_, Name, XCVM_TAKEN_##f32)
#define OF_ONE_OWN(Name, f32) OF_ONE_PLAIN(Name, f32)
#define OF_ONE_VARIANT(Name, f32)
#define OF_ONE(Name, kernel, grain, f32, f64, integers) OF_ONE_##kernel(Name, f32)
static const known_map of_one[] = {XCVM_UNARY_FORMULAS(OF_ONE)};
#define OF_TWO_SAME(Name, f32) XCVM_BY_KIND(ENTRY_, Name, XCVM_TAKEN_##f32)
#define OF_TWO_BOOL(Name, f32)
#define OF_TWO(Name, kernel, grain, result, f32, f64, integers, booleans) OF_TWO_##result(Name, f32)
static const known_map of_two[] = {XCVM_BINARY_FORMULAS(OF_TWO)};

static const char *find(const known_map *maps, size_t count, xcvm_opcode opcode)
{
    for (size_t i = 0; i < count; i++)
        if (maps[i].opcode == opcode)
            return maps[i].function;
    return NULL;
}

/* Alpha and beta are the instruction's FLOAT attributes in row order. */
static void take_attributes(const xcc_node *n, xcc_map *map)
{
    double *const to[] = {&map->alpha, &map->beta};
    size_t count = 0;
    for (size_t f = 0; f < n->schema->field_count && count < 2; f++)
        if (n->schema->fields[f].kind == XCVM_FIELD_FLOAT)
            memcpy(to[count++], (const char *)n->args + n->schema->fields[f].offset, sizeof(double));
}

static bool take_bound(const xcvm_value *bound, double *to)
{
    if (bound == NULL)
        return true;
    if (!xcc_is_literal(xcc_value_of(bound)))
        return false;
    *to = xcvm_element_as_double(bound, 0);
    return true;
}

static bool take_clip(const xcc_node *n, xcc_map *map)
{
    const xcvm_Clip_args *a = XCC_ARGS(Clip, n);
    map->alpha = -(double)INFINITY;
    map->beta = (double)INFINITY;
    return take_bound(a->min, &map->alpha) && take_bound(a->max, &map->beta);
}

static bool is_f32(const xcc_value *v)
{
    return v != NULL && v->type.kind == XCVM_KIND_TENSOR && v->type.dtype == XCVM_F32 && v->type.rank >= 0 &&
           xcvm_dims_known(&v->type);
}

bool xcc_map_of(const xcc_node *n, xcc_map *map)
{
    if (n->kind != XCC_INSTRUCTION || xcc_node_output_count(n) != 1 || !is_f32(xcc_node_output(n, 0)))
        return false;
    *map = (xcc_map){.function = find(of_two, sizeof of_two / sizeof *of_two, n->schema->opcode)};
    size_t operands = map->function != NULL ? 2 : 1;
    if (operands == 1)
        map->function = find(of_one, sizeof of_one / sizeof *of_one, n->schema->opcode);
    if (map->function == NULL)
        return false;
    for (size_t i = 0; i < operands; i++) {
        map->operands[i] = xcc_node_input(n, i);
        if (!is_f32(map->operands[i]))
            return false;
    }
    if (xcc_is(n, XCVM_OP_Clip) && !take_clip(n, map))
        return false;
    if (operands == 1 && !xcc_is(n, XCVM_OP_Clip))
        take_attributes(n, map);
    if (xcc_is(n, XCVM_OP_Gelu) && XCC_ARGS(Gelu, n)->approximate == XCVM_GELU_tanh)
        map->function = "GeluTanh";
    size_t elements = xcvm_element_count(&xcc_node_output(n, 0)->type);
    map->cost = elements != 0 ? xcc_node_flops(n) / elements : 0;
    return true;
}
