/* Random programs, with whatever slots the verifier lets them have, give the same results as without slots and as
 * without Frees, where nothing is ever overwritten. */
#include "tests/vm/support.h"

#include <stdio.h>

enum { INSTRUCTIONS = 24, REGISTERS = INSTRUCTIONS + 1, SLOTS = 3, PROGRAMS = 150, OUTPUTS = 3 };

typedef struct line {
    char text[160];
    int slot;  /* -1: none */
    int bytes; /* of the slot; 8 are too few for any value */
    bool is_free;
} line;

typedef struct plan {
    line lines[3 * INSTRUCTIONS];
    int count;
    uint64_t random;
    int made; /* registers from 1 to `made`; $1 is the input */
    bool live[REGISTERS + 1];
    int shape[REGISTERS + 1]; /* index into targets */
    int outputs;
} plan;

static const char *const targets[] = {"i64[1] 4", "i64[2] 2 2", "i64[2] 4 1"};

static int pick(plan *p, int count) { return (int)((test_random_wide(&p->random) >> 33) % (uint64_t)count); }

static line *add_line(plan *p)
{
    line *l = &p->lines[p->count++];
    *l = (line){.slot = -1};
    return l;
}

static int pick_live(plan *p)
{
    int r;
    do
        r = 1 + pick(p, p->made);
    while (!p->live[r]);
    return r;
}

static void add_instruction(plan *p)
{
    int a = pick_live(p), b = pick_live(p), y = ++p->made, shape = p->shape[a];
    line *l = add_line(p);
    switch (pick(p, 6)) {
    case 0:
        snprintf(l->text, sizeof l->text, "$%d = Neg($%d)", y, a);
        break;
    case 1:
        if (p->shape[b] != shape)
            b = a;
        snprintf(l->text, sizeof l->text, "$%d = Sub($%d, $%d)", y, a, b);
        break;
    case 2:
        if (p->shape[b] != shape)
            b = a;
        snprintf(l->text, sizeof l->text, "$%d = Max($%d, $%d)", y, a, b);
        break;
    case 3:
        shape = pick(p, 3);
        snprintf(l->text, sizeof l->text, "$%d = Reshape($%d, %s)", y, a, targets[shape]);
        break;
    case 4:
        snprintf(l->text, sizeof l->text, "$%d = Concat([$%d], axis=0)", y, a);
        break;
    default:
        snprintf(l->text, sizeof l->text, "$%d = Identity($%d)", y, a);
        break;
    }
    p->live[y] = true;
    p->shape[y] = shape;
}

static void add_free(plan *p, int r)
{
    line *l = add_line(p);
    l->is_free = true;
    snprintf(l->text, sizeof l->text, "Free($%d)", r);
    p->live[r] = false;
}

static void generate(plan *p, uint64_t seed)
{
    *p = (plan){.random = seed, .made = 1};
    p->live[1] = true;
    snprintf(add_line(p)->text, sizeof p->lines->text, "$1 = In(name=\"x\")");
    while (p->made < INSTRUCTIONS) {
        add_instruction(p);
        int live = 0;
        for (int r = 1; r <= p->made; r++)
            live += p->live[r];
        if (p->outputs < OUTPUTS && pick(p, 6) == 0)
            snprintf(add_line(p)->text, sizeof p->lines->text, "Out($%d, name=\"y%d\")", pick_live(p), p->outputs++);
        for (int frees = pick(p, 3); frees > 0 && live > 1 && p->count < 3 * INSTRUCTIONS - 8; frees--, live--)
            add_free(p, pick_live(p));
    }
    while (p->outputs < OUTPUTS)
        snprintf(add_line(p)->text, sizeof p->lines->text, "Out($%d, name=\"y%d\")", pick_live(p), p->outputs++);
}

static xcvm_program *build(const plan *p, bool frees, bool slots)
{
    static char text[16384];
    xcvm_program *program = NULL;
    int length = snprintf(text, sizeof text, "arena %d\ninput x f32[4]\n", SLOTS * 64);
    for (int i = 0; i < OUTPUTS; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "output y%d f32[...]\n", i);
    for (int i = 0; i < p->count; i++) {
        const line *l = &p->lines[i];
        if (l->is_free && !frees)
            continue;
        length += snprintf(text + length, sizeof text - (size_t)length, "%s", l->text);
        if (slots && l->slot >= 0)
            length += snprintf(text + length, sizeof text - (size_t)length, " slot=%d+%d", l->slot * 64, l->bytes);
        length += snprintf(text + length, sizeof text - (size_t)length, "\n");
    }
    (void)!try_load(text, NULL, &program, NULL);
    return program;
}

/* Gives instructions slots, one after the other, where the verifier accepts it. */
static int make_plan(plan *p)
{
    int planned = 0;
    for (int i = 1; i < p->count; i++) {
        line *l = &p->lines[i];
        if (l->is_free || strncmp(l->text, "Out", 3) == 0 || pick(p, 5) == 0)
            continue;
        l->bytes = pick(p, 5) == 0 ? 8 : 16;
        for (int tries = 0, first = pick(p, SLOTS); tries < SLOTS && l->slot < 0; tries++) {
            l->slot = (first + tries) % SLOTS;
            xcvm_program *program = build(p, true, true);
            if (program == NULL)
                l->slot = -1;
            xcvm_program_destroy(program);
        }
        planned += l->slot >= 0;
    }
    return planned;
}

static void results(xcvm_program *program, float values[OUTPUTS][4])
{
    float x[4] = {1, -2, 3, -4};
    ck_assert_ptr_nonnull(program);
    xcvm_session *session = open_default_session(program);
    set_f32(session, 0, 1, DIMS(4), x);
    for (int round = 0; round < 3; round++) {
        run_session(session);
        for (size_t i = 0; i < OUTPUTS; i++) {
            const void *data = xcvm_value_data(xcvm_session_get_output(session, i));
            if (round > 0)
                ck_assert_mem_eq(values[i], data, sizeof values[i]);
            memcpy(values[i], data, sizeof values[i]);
        }
        ck_assert_float_eq(x[3], -4);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}

START_TEST(same_results)
{
    static plan p;
    float expected[OUTPUTS][4], freed[OUTPUTS][4], planned[OUTPUTS][4];
    int slots = 0;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        generate(&p, seed);
        slots += make_plan(&p);
        results(build(&p, false, false), expected);
        results(build(&p, true, false), freed);
        results(build(&p, true, true), planned);
        ck_assert_msg(memcmp(expected, freed, sizeof expected) == 0, "seed %d, without slots", (int)seed);
        ck_assert_msg(memcmp(expected, planned, sizeof expected) == 0, "seed %d, with slots", (int)seed);
    }
    ck_assert_int_gt(slots, 5 * PROGRAMS);
}
END_TEST

Suite *suite_vm_plans(void);
Suite *suite_vm_plans(void) { return SUITE_OF("vm_plans", same_results); }
