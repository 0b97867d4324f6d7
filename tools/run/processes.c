/* Open MPI, through the functions and objects that its library exports (mpi.h makes its constants of these objects). */
#include "run/processes.h"
#include "cli/report.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

static const char file_name[] = "libmpi.so.40"; /* of Open MPI 2 to 4; Debian's */

static struct {
    int (*init)(int *argc, char ***argv);
    int (*finalize)(void);
    int (*comm_rank)(void *comm, int *rank);
    int (*comm_size)(void *comm, int *size);
    int (*all_reduce)(const void *from, void *to, int count, void *type, void *op, void *comm);
    int (*abort)(void *comm, int code);
    void *world, *f32, *f64, *sum;
} mpi;

/* MPI_IN_PLACE: what is given is what is replaced. */
static void *const in_place = (void *)1;

static bool started_by_mpirun(void)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    return size != NULL && atoi(size) > 1;
}

/* dlsym gives functions as pointers to objects, which C has no conversion for. */
static bool find_function(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    *(void **)function = found;
    return found != NULL;
}

static bool find_all(void *library)
{
    mpi.world = dlsym(library, "ompi_mpi_comm_world");
    mpi.f32 = dlsym(library, "ompi_mpi_float");
    mpi.f64 = dlsym(library, "ompi_mpi_double");
    mpi.sum = dlsym(library, "ompi_mpi_op_sum");
    return find_function(library, "MPI_Init", &mpi.init) && find_function(library, "MPI_Finalize", &mpi.finalize) &&
           find_function(library, "MPI_Comm_rank", &mpi.comm_rank) &&
           find_function(library, "MPI_Comm_size", &mpi.comm_size) &&
           find_function(library, "MPI_Allreduce", &mpi.all_reduce) &&
           find_function(library, "MPI_Abort", &mpi.abort) && mpi.world != NULL && mpi.f32 != NULL && mpi.f64 != NULL &&
           mpi.sum != NULL;
}

xcvm_status processes_begin(struct processes *processes, xcvm_error *error)
{
    *processes = (struct processes){.count = 1};
    if (!started_by_mpirun())
        return XCVM_OK;
    /* Its plugins look for its symbols among those of the process. */
    void *library = dlopen(file_name, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        return error_set(error, XCVM_UNSUPPORTED, "mpirun has started several processes, but %s", dlerror());
    if (!find_all(library) || mpi.init(NULL, NULL) != 0 || mpi.comm_rank(mpi.world, &processes->rank) != 0 ||
        mpi.comm_size(mpi.world, &processes->count) != 0)
        return error_set(error, XCVM_UNSUPPORTED, "%s cannot be used as Open MPI's", file_name);
    processes->library = library;
    return XCVM_OK;
}

xcvm_status processes_all_reduce(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error)
{
    (void)user;
    char *at = elements;
    void *type = dtype == XCVM_F32 ? mpi.f32 : mpi.f64;
    for (size_t done = 0; done < count;) {
        int now = count - done < INT_MAX ? (int)(count - done) : INT_MAX;
        if (mpi.all_reduce(in_place, at, now, type, mpi.sum, mpi.world) != 0)
            return error_set(error, XCVM_IO, "the processes cannot talk to each other any more");
        done += (size_t)now;
        at += (size_t)now * (size_t)xcvm_dtype_bits(dtype) / 8;
    }
    return XCVM_OK;
}

bool processes_agree(const struct processes *processes, bool failed, bool *speak)
{
    double failures[2] = {failed, failed && processes->rank == 0};
    xcvm_error error;
    *speak = failed;
    if (processes->library == NULL)
        return !failed;
    if (processes_all_reduce(NULL, XCVM_F64, failures, 2, &error) != XCVM_OK)
        return false;
    *speak = failed && (processes->rank == 0 || failures[1] == 0);
    return failures[0] == 0;
}

void processes_end(struct processes *processes, bool together, int exit_code)
{
    if (processes->library == NULL)
        return;
    if (together)
        mpi.finalize();
    else
        mpi.abort(mpi.world, exit_code);
}
