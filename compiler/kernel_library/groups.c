/* Finds groups of nodes for kernel libraries, after scheduling. A group starts with one node and grows by later nodes
 * that read its results. A node moves up to the end of the group together with the producers of its operands, unless a
 * node that stays in between computes one of them.
 *
 * A group is never part of a cycle. In the schedule each node follows the producers of its operands. A node moves only
 * to the end of the group, which precedes its own position, so it still precedes its readers. It moves only if no node
 * in between computes an operand of it (join). So the order stays valid, the group is contiguous, and no path leaves
 * and reenters it. */
#include "compiler/kernel_library/kernel_library.h"

#include <string.h>

/* Limits: number of nodes searched after a group, depth of the search for operands, and length of a group. */
enum { WINDOW = 64, DEPTH = 8, LONGEST = 1024 };

typedef struct growth {
    xcc_module *m;
    const xcvm_value *shape; /* the domain */
    int split;               /* -1: nothing is reduced yet */
    xcc_node *nodes[LONGEST];
    size_t count;
    xcc_node *last;
} growth;

static bool still_fit(const growth *g, int split)
{
    xcc_member member;
    for (size_t i = 0; i < g->count; i++)
        if (!xcc_member_of(g->nodes[i], g->shape, split, &member))
            return false;
    return true;
}

static bool fits(const growth *g, const xcc_node *n)
{
    xcc_member member;
    if (!xcc_member_of(n, g->shape, g->split, &member))
        return false;
    /* The first reduction defines the rows, also for the nodes before it. */
    return member.split < 0 || member.split == g->split || still_fit(g, member.split);
}

static void add(growth *g, xcc_node *n)
{
    xcc_member member;
    if (g->last != NULL)
        xcc_node_move_before(n, g->last->next);
    if (g->split < 0 && xcc_member_of(n, g->shape, -1, &member))
        g->split = member.split;
    g->last = n;
    g->nodes[g->count++] = n;
    n->mark = XCC_MARK_GROUPED;
}

/* Adds a node that fits, after the producers of its operands that are not in the group, if all of them can move. */
static bool join(growth *g, xcc_node *n, int depth)
{
    if (g->count == LONGEST)
        return false;
    size_t inputs = xcc_node_input_count(n);
    for (size_t i = 0; i < inputs; i++) {
        const xcc_value *v = xcc_node_input(n, i);
        xcc_node *producer = v != NULL && v->graph == n->graph ? v->producer : NULL;
        if (producer != NULL && producer->mark == XCC_MARK_PASSED &&
            (depth == 0 || !fits(g, producer) || !join(g, producer, depth - 1)))
            return false;
    }
    /* A node before it may have defined the rows. */
    if (g->count == LONGEST || !fits(g, n))
        return false;
    add(g, n);
    return true;
}

static bool reads_group(const xcc_node *n)
{
    size_t inputs = xcc_node_input_count(n);
    for (size_t i = 0; i < inputs; i++) {
        const xcc_value *v = xcc_node_input(n, i);
        if (v != NULL && v->graph == n->graph && v->producer != NULL && v->producer->mark == XCC_MARK_GROUPED)
            return true;
    }
    return false;
}

static void grow(growth *g, xcc_node *first)
{
    g->count = 0;
    g->last = NULL;
    add(g, first);
    size_t passed = 0;
    for (xcc_node *n = first->next, *next; n != NULL && passed < WINDOW; n = next) {
        next = n->next;
        if (n->mark == XCC_MARK_GROUPED)
            continue;
        n->mark = XCC_MARK_PASSED;
        if (!fits(g, n) || !reads_group(n) || !join(g, n, DEPTH))
            passed++;
    }
}

static void unmark(growth *g)
{
    for (size_t i = 0; i < g->count; i++)
        g->nodes[i]->mark = XCC_MARK_NONE;
    size_t passed = 0;
    for (xcc_node *n = g->last->next; n != NULL && passed <= WINDOW; n = n->next, passed++)
        n->mark = XCC_MARK_NONE;
}

static bool is_used_outside(const xcc_kernel_group *f, const xcc_value *v)
{
    for (const xcc_use *use = v->users; use != NULL; use = use->next)
        if (use->node == NULL || use->node->group != &f->group)
            return true;
    return false;
}

/* False if there are too many, or the value is read in another way already. */
static bool take_operand(xcc_kernel_group *f, xcc_value *v, int rank, const xcvm_ints *perm)
{
    if ((v->producer != NULL && v->producer->group == &f->group) || xcc_is_literal(v))
        return true;
    for (size_t i = 0; i < f->group.x_count; i++)
        if (f->group.xs[i] == v)
            return f->reads[i].rank == rank && f->reads[i].perm == perm;
    if (f->group.x_count == XCVM_FUSED_OPERANDS)
        return false;
    f->reads[f->group.x_count].rank = rank;
    f->reads[f->group.x_count].perm = perm;
    f->group.xs[f->group.x_count++] = v;
    return true;
}

/* Counts operands and results of the group's first nodes. Returns the largest number of nodes that fit one function. */
static size_t collect_operands(xcc_kernel_group *f, const xcc_member *members)
{
    f->group.x_count = f->result_count = 0;
    for (size_t i = 0; i < f->group.node_count; i++) {
        const xcc_member *member = &members[i];
        bool dropped = member->split < 0 && member->form == XCC_FORM_DROPPED;
        const xcvm_ints *perm = member->kind == XCC_MEMBER_MOVE ? &XCC_ARGS(Transpose, f->group.nodes[i])->perm : NULL;
        for (size_t j = 0; j < member->operand_count; j++)
            if (member->operands[j] != NULL &&
                !take_operand(f, member->operands[j], dropped ? f->split : f->shape->rank, perm))
                return i;
        if (!is_used_outside(f, xcc_node_output(f->group.nodes[i], 0)))
            continue;
        if (f->result_count == XCVM_FUSED_OPERANDS)
            return i;
        f->results[f->result_count++] = i;
    }
    return f->group.node_count;
}

static void set_group(const xcc_kernel_group *f, xcc_group *to)
{
    for (size_t i = 0; i < f->group.node_count; i++)
        f->group.nodes[i]->group = to;
}

/* Creates the group from all of its nodes, from its first nodes, or not at all. The search continues after *last. */
static xcvm_status finish(growth *g, xcc_node **last)
{
    *last = g->last;
    if (g->count < 2)
        return XCVM_OK;
    xcc_kernel_group *f = xcc_alloc(g->m, sizeof *f);
    xcc_node **nodes = f != NULL ? xcc_alloc(g->m, g->count * sizeof *nodes) : NULL;
    xcc_value **xs = nodes != NULL ? xcc_alloc(g->m, XCVM_FUSED_OPERANDS * sizeof *xs) : NULL;
    xcc_member *members = xcvm_allocate(g->m->allocator, g->count * sizeof *members);
    if (xs == NULL || members == NULL) {
        xcvm_deallocate(g->m->allocator, members, g->count * sizeof *members);
        return xcc_out_of_memory(g->m);
    }
    memcpy(nodes, g->nodes, g->count * sizeof *nodes);
    *f = (xcc_kernel_group){
        .group = {.nodes = nodes, .node_count = g->count, .xs = xs}, .shape = g->shape, .split = g->split};
    for (size_t i = 0; i < g->count; i++)
        (void)xcc_member_of(nodes[i], f->shape, f->split, &members[i]);
    /* Fewer nodes may have more results, so several attempts may be necessary. */
    bool whole = false;
    while (!whole && f->group.node_count >= 2) {
        set_group(f, &f->group);
        size_t count = collect_operands(f, members);
        whole = count == f->group.node_count && xcc_kernel_group_pays(f);
        if (whole)
            break;
        set_group(f, NULL);
        f->group.node_count = count < f->group.node_count ? count : 0;
    }
    xcvm_deallocate(g->m->allocator, members, g->count * sizeof *members);
    if (!whole)
        return XCVM_OK;
    *last = nodes[f->group.node_count - 1];
    f->group.number = g->m->group_count++;
    f->group.next = g->m->groups;
    g->m->groups = &f->group;
    g->m->changes++;
    return XCVM_OK;
}

static xcvm_status codegen_graph(xcc_module *m, xcc_graph *graph, growth *g)
{
    for (xcc_node *n = graph->first; n != NULL; n = n->next)
        n->mark = XCC_MARK_NONE;
    for (xcc_node *n = graph->first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(m));
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(codegen_graph(m, n->bodies[i], g));
        g->shape = xcc_member_domain(n, &g->split);
        if (g->shape == NULL)
            continue;
        grow(g, n);
        xcvm_status status = finish(g, &n);
        unmark(g);
        XCVM_TRY(status);
    }
    return XCVM_OK;
}

xcvm_status xcc_pass_codegen(xcc_module *m)
{
    if (m->options->kernel_library.path == NULL)
        return XCVM_OK;
    growth *g = xcc_alloc(m, sizeof *g);
    if (g == NULL)
        return XCVM_OUT_OF_MEMORY;
    g->m = m;
    return codegen_graph(m, m->graph, g);
}
