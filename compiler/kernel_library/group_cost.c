/* The cost model of groups. A function of several nodes saves the dispatch of all but one of them, about 100 ns each if
 * threads are woken. It also saves a store and a load of each value inside the group. Values that it recomputes are
 * cheaper than a load (group_loops.c). On the other hand, it cannot share one long row between threads, as the separate
 * kernels do. */
#include "compiler/kernel_library/kernel_library.h"

/* Elements of the longest row that is reduced by one thread where there are fewer rows than FEW, and of any. */
enum { FEW = 8, LONG_ROW = 16384, LONGEST_ROW = 1 << 18 };

bool xcc_reduce_pays(const xcvm_value *shape, int split)
{
    int64_t rows = xcc_rows(shape, split), length = xcc_row_length(shape, split);
    return rows > 0 && length > 1 && length <= (rows < FEW ? LONG_ROW : LONGEST_ROW);
}

static double elements_of(const xcc_value *v)
{
    return v != NULL && v->type.dtype == XCVM_F32 ? (double)xcvm_element_count(&v->type) : 0;
}

/* Elements that the unfused instructions read and write. */
static double unfused_traffic(const xcc_kernel_group *f)
{
    double count = 0;
    for (size_t i = 0; i < f->group.node_count; i++) {
        size_t inputs = xcc_node_input_count(f->group.nodes[i]);
        count += elements_of(xcc_node_output(f->group.nodes[i], 0));
        for (size_t j = 0; j < inputs; j++)
            count += elements_of(xcc_node_input(f->group.nodes[i], j));
    }
    return count;
}

static double fused_traffic(const xcc_kernel_group *f)
{
    double count = 0;
    for (size_t i = 0; i < f->group.x_count; i++)
        count += elements_of(f->group.xs[i]);
    for (size_t i = 0; i < f->result_count; i++)
        count += elements_of(xcc_node_output(f->group.nodes[f->results[i]], 0));
    return count;
}

bool xcc_kernel_group_pays(const xcc_kernel_group *f)
{
    /* An element that passes through the outer cache takes about a quarter of a nanosecond. */
    const double dispatch_ns = 100, element_ns = 0.25;
    if (f->result_count == 0)
        return false;
    double dispatch = dispatch_ns * ((double)f->group.node_count - 1);
    return dispatch + element_ns * (unfused_traffic(f) - fused_traffic(f)) > 0;
}
