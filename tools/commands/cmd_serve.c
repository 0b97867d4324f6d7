/* `xcvm serve`: a model server with the Open Inference Protocol. */
#include "commands/commands.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "io/file.h"
#include "io/output.h"
#include "io/read.h"
#include "run/program.h"
#include "serve/config.h"
#include "serve/repository.h"
#include "serve/sandbox.h"
#include "serve/systemd.h"

#include <xcvm/server_grpc.h>
#include <xcvm/server_http.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct serve_flags {
    struct program_flags program;
    const char *http, *grpc, *admin, *api_key_file, *tls_cert, *tls_key, *access_log, *config, *otlp_endpoint,
        *otlp_service;
    bool insecure, no_admin, no_sandbox, no_page, inexact_batches;
    int64_t trace_sample;
    int64_t workers, sessions, threads, connections;
    int64_t queue, max_batch, batch_delay_us, busy_poll_us, request_timeout_ms, clients, client_idle_s, drain_ms;
    uint64_t queue_bytes, body_limit, model_memory, memory;
};

static const struct option serving_options[] = {
    {"http", 0, "ADDR", OPTION_TEXT, offsetof(struct serve_flags, http), 0, 0,
     "address of the REST API: HOST:PORT, [IPv6]:PORT or unix:PATH; port 0 selects a free one"},
    {"grpc", 0, "ADDR", OPTION_TEXT, offsetof(struct serve_flags, grpc), 0, 0,
     "also serve gRPC at this address; without the option there is no gRPC"},
    {"admin", 0, "SOCKET", OPTION_FILE, offsetof(struct serve_flags, admin), 0, 0,
     "load and unload models only at this Unix socket, which it creates for the user of the process"},
    {"api-key-file", 0, "FILE", OPTION_FILE, offsetof(struct serve_flags, api_key_file), 0, 0,
     "clients must send the key in this file, as \"Authorization: Bearer KEY\"; gRPC: as metadata"},
    {"tls-cert", 0, "FILE", OPTION_FILE, offsetof(struct serve_flags, tls_cert), 0, 0,
     "serve REST and gRPC with TLS by this certificate, with its chain, in PEM form"},
    {"tls-key", 0, "FILE", OPTION_FILE, offsetof(struct serve_flags, tls_key), 0, 0,
     "private key of the certificate in PEM form, without a password"},
    {"insecure", 0, NULL, OPTION_FLAG, offsetof(struct serve_flags, insecure), 0, 0,
     "allow an address that other machines can reach without an API key"},
    {"no-admin", 0, NULL, OPTION_FLAG, offsetof(struct serve_flags, no_admin), 0, 0,
     "refuse requests to load or unload models"},
    {"no-sandbox", 0, NULL, OPTION_FLAG, offsetof(struct serve_flags, no_sandbox), 0, 0,
     "do not restrict the process to reading its models and to the system calls of a server"},
    {"access-log", 0, "FILE", OPTION_FILE, offsetof(struct serve_flags, access_log), 0, 0,
     "append a line of JSON for each request; \"-\": standard output"},
    {"config", 0, "FILE", OPTION_FILE, offsetof(struct serve_flags, config), 0, 0,
     "read options from a file with lines NAME = VALUE and model = PATH; the command line wins"},
    {"no-page", 0, NULL, OPTION_FLAG, offsetof(struct serve_flags, no_page), 0, 0, "have no web page at \"/\""},
    {"trace-sample", 0, "N", OPTION_INT, offsetof(struct serve_flags, trace_sample), 0, INT32_MAX,
     "trace one in N requests without a W3C trace context; 0: none. Requests with one are traced if it says so"},
    {"otlp-endpoint", 0, "URL", OPTION_TEXT, offsetof(struct serve_flags, otlp_endpoint), 0, 0,
     "export traces to this collector by OTLP/HTTP: http://HOST:PORT[/PATH]"},
    {"otlp-service", 0, "NAME", OPTION_TEXT, offsetof(struct serve_flags, otlp_service), 0, 0,
     "name of the service in exported traces"},
    {"drain-ms", 0, "MS", OPTION_INT, offsetof(struct serve_flags, drain_ms), 0, INT32_MAX,
     "at SIGTERM, serve on for this time while /v2/health/ready answers 503; a second signal ends the wait; 0: "
     "only answer requests that were sent"},
    END_OF_OPTIONS,
};

static const struct option pool_options[] = {
    {"workers", 0, "N", OPTION_INT, offsetof(struct serve_flags, workers), 0, 1024,
     "threads that run requests; 0: as many as the process may use"},
    {"sessions", 0, "N", OPTION_INT, offsetof(struct serve_flags, sessions), 0, 1024,
     "requests of a model that run at once; 0: as many as workers"},
    {"threads", 't', "N", OPTION_INT, offsetof(struct serve_flags, threads), 1, 1024, "threads of one request"},
    {"max-batch", 0, "N", OPTION_INT, offsetof(struct serve_flags, max_batch), 1, 65536,
     "most rows that run together; 1: no batches"},
    {"batch-delay-us", 0, "US", OPTION_INT, offsetof(struct serve_flags, batch_delay_us), 0, 10000000,
     "how long a request waits for others; 0: only requests that wait anyway are batched"},
    {"busy-poll-us", 0, "US", OPTION_INT, offsetof(struct serve_flags, busy_poll_us), 0, 1000,
     "how long a thread looks for the next request before it sleeps, if requests follow each other that fast; 0: not"},
    {"inexact-batches", 0, NULL, OPTION_FLAG, offsetof(struct serve_flags, inexact_batches), 0, 0,
     "batch although results then differ in the last bits"},
    {"queue", 0, "N", OPTION_INT, offsetof(struct serve_flags, queue), 1, 1000000,
     "most requests of a model that wait; others are refused with 429, or RESOURCE_EXHAUSTED"},
    {"queue-bytes", 0, "SIZE", OPTION_SIZE, offsetof(struct serve_flags, queue_bytes), 1, INT64_MAX,
     "most bytes of inputs that wait for a model"},
    {"request-timeout-ms", 0, "MS", OPTION_INT, offsetof(struct serve_flags, request_timeout_ms), 0, INT32_MAX,
     "deadline of requests without \"timeout\"; 0: none"},
    {"clients", 0, "N", OPTION_INT, offsetof(struct serve_flags, clients), 1, 1000000,
     "most clients (sequence_id) with states of a model"},
    {"client-idle-s", 0, "S", OPTION_INT, offsetof(struct serve_flags, client_idle_s), 1, INT32_MAX,
     "drop the states of a client after this time without a request"},
    {"body-limit", 0, "SIZE", OPTION_SIZE, offsetof(struct serve_flags, body_limit), 1, INT64_MAX,
     "most bytes of a request's body, or of a message of gRPC"},
    {"connections", 0, "N", OPTION_INT, offsetof(struct serve_flags, connections), 1, 100000,
     "most open connections, of each protocol"},
    {"model-memory", 0, "SIZE", OPTION_SIZE, offsetof(struct serve_flags, model_memory), 0, INT64_MAX,
     "memory of each model with its requests; 0: no limit"},
    {"memory", 0, "SIZE", OPTION_SIZE, offsetof(struct serve_flags, memory), 0, INT64_MAX,
     "memory of all models; 0: no limit"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    {"Serving", serving_options, 0},
    {"Requests", pool_options, 0},
    MODEL_GROUPS(struct serve_flags, program.model),
};
static const struct serve_flags defaults = {.program = PROGRAM_DEFAULTS,
                                            .http = "127.0.0.1:8000",
                                            .otlp_service = "xcvm",
                                            .threads = 1,
                                            .max_batch = 32,
                                            .busy_poll_us = 100,
                                            .queue = 256,
                                            .queue_bytes = 256 << 20,
                                            .body_limit = 64 << 20,
                                            .request_timeout_ms = 30000,
                                            .clients = 64,
                                            .client_idle_s = 600,
                                            .connections = 1000};

struct service {
    const struct serve_flags *flags;
    const struct arguments *operands;
    xcs_server *server;
    xcs_http *http;
    xcs_grpc *grpc; /* NULL: none */
    xcs_tracer *tracer;
    xcs_tls *tls;
    int log;         /* descriptor; -1: none */
    bool log_is_cut; /* its last line has no end; atomic, because the servers share the log */
    char *api_key;
};

/* ---- Models ---- */

/* Compiles models and assembles texts; program files are mapped. */
static xcvm_status load_program(void *user, const char *path, const xcvm_load_options *options, xcvm_program **program,
                                xcvm_error *error)
{
    const struct service *service = user;
    enum file_kind kind;
    struct buffer bytes = {0};
    bool made;
    xcvm_load_options copied = *options;
    TRY(file_kind_of(path, NULL, &kind, error));
    if (kind == FILE_PROGRAM)
        return xcvm_program_load_file(path, options, program, error);
    TRY(program_bytes(path, &service->flags->program, &bytes, &made, error));
    copied.copy = true;
    xcvm_status status = xcvm_program_load(bytes.data, bytes.length, &copied, program, error);
    buffer_release(&bytes);
    return status;
}

static xcvm_status load_model(struct service *service, const struct served_model *model, xcvm_error *error)
{
    const struct serve_flags *f = service->flags;
    const xcs_model_options options = {
        .size = sizeof options,
        .name = model->name,
        .version = model->version,
        .path = model->path,
        .loader = {load_program, service},
        .sessions = (int)f->sessions,
        .threads = (int)f->threads,
        .memory_limit = f->model_memory,
        .timeout_ns = (uint64_t)f->request_timeout_ms * 1000000,
        .queue = {(size_t)f->queue, f->queue_bytes},
        .batch = {f->max_batch, (uint64_t)f->batch_delay_us * 1000, f->inexact_batches},
        .clients = {(size_t)f->clients, (uint64_t)f->client_idle_s * 1000000000},
    };
    return xcs_server_load_model(service->server, &options, error);
}

static void report_batching(const struct service *service, const struct served_model *model)
{
    const char *reason;
    xcs_model *loaded = xcs_server_find_model(service->server, model->name, model->version);
    if (loaded == NULL)
        return;
    const int64_t rows = xcs_model_batch_rows(loaded, &reason);
    if (rows > 0)
        report_line("model %s, version %s: batches of up to %lld rows", model->name, model->version, (long long)rows);
    else
        report_line("model %s, version %s: no batches (%s)", model->name, model->version, reason);
    xcs_model_release(loaded);
}

/* Loads all models. At the start a failure ends the command; later it is reported, and the old model serves on. */
static int load_models(struct service *service, bool at_start)
{
    struct repository repository = {0};
    xcvm_error error = {.pc = -1};
    int code = EXIT_OK;
    for (size_t i = 0; i < service->operands->count && code == EXIT_OK; i++)
        if (repository_add(&repository, service->operands->items[i], &error) != XCVM_OK)
            code = report_error(NULL, &error);
    for (size_t i = 0; i < repository.count && (code == EXIT_OK || !at_start); i++) {
        if (load_model(service, &repository.models[i], &error) != XCVM_OK)
            code = report_error(repository.models[i].path, &error);
        else
            report_batching(service, &repository.models[i]);
    }
    repository_release(&repository);
    return code;
}

/* ---- Start ---- */

/* A key that others can read is reported and not refused, because containers mount secrets like that. A file of root
 * may have a group, as those of systemd's LoadCredential have. */
static void report_readers(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode))
        return;
    const unsigned mode = (unsigned)about.st_mode & 0777;
    if ((mode & (about.st_uid == 0 ? 027 : 077)) != 0)
        report_line("%s has a key that others than its owner can use (mode %03o). Run chmod 600 %s", path, mode, path);
}

static int read_api_key(struct service *service)
{
    struct buffer bytes = {0};
    xcvm_error error = {.pc = -1};
    const struct read_limits limits = {.bytes = 4096};
    if (service->flags->api_key_file == NULL)
        return EXIT_OK;
    if (file_read(service->flags->api_key_file, &limits, &bytes, &error) != XCVM_OK)
        return report_error(NULL, &error);
    report_readers(service->flags->api_key_file);
    const char *text = buffer_string(&bytes);
    service->api_key = memory_text_n(text, strcspn(text, " \t\r\n"));
    buffer_release(&bytes);
    if (strlen(service->api_key) < 16)
        return report_usage(
            "%s has a key of %zu characters. Use at least 16, for example from \"openssl rand -hex 32\"",
            service->flags->api_key_file, strlen(service->api_key));
    return EXIT_OK;
}

static int read_certificate(struct service *service)
{
    const struct serve_flags *f = service->flags;
    xcvm_error error = {.pc = -1};
    if ((f->tls_cert != NULL) != (f->tls_key != NULL))
        return report_usage("--tls-cert and --tls-key belong together. Add %s",
                            f->tls_cert == NULL ? "--tls-cert FILE" : "--tls-key FILE");
    if (f->tls_cert == NULL)
        return EXIT_OK;
    if (xcs_tls_create(f->tls_cert, f->tls_key, &service->tls, &error) != XCVM_OK)
        return report_error(NULL, &error);
    report_readers(f->tls_key);
    return EXIT_OK;
}

static int open_log(struct service *service)
{
    const char *path = service->flags->access_log;
    service->log = -1;
    if (path == NULL)
        return EXIT_OK;
    service->log = strcmp(path, "-") == 0 ? STDOUT_FILENO : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    xcvm_error error;
    if (service->log >= 0)
        return EXIT_OK;
    error_set(&error, XCVM_IO, "cannot open the access log: %s", strerror(errno));
    return report_error(path, &error);
}

static bool append_to_log(void *user, const void *bytes, size_t count)
{
    struct service *service = user;
    if (__atomic_load_n(&service->log_is_cut, __ATOMIC_RELAXED) && write(service->log, "\n", 1) == 1)
        __atomic_store_n(&service->log_is_cut, false, __ATOMIC_RELAXED);
    const ssize_t written = write(service->log, bytes, count);
    if (written > 0 && (size_t)written < count)
        __atomic_store_n(&service->log_is_cut, true, __ATOMIC_RELAXED);
    return written == (ssize_t)count;
}

/* Reports why a server cannot be started at its address. */
static int report_address(const xcvm_error *error)
{
    if (error->status == XCVM_INVALID_ARGUMENT)
        return report_usage("%s%s", error->message,
                            strstr(error->message, "API key") != NULL ? ": --api-key-file, or --insecure" : "");
    return report_error(NULL, error);
}

static int start_http(struct service *service)
{
    const struct serve_flags *f = service->flags;
    xcvm_error error = {.pc = -1};
    const xcs_http_options options = {.size = sizeof options,
                                      .address = f->http,
                                      .socket = systemd_socket(0),
                                      .api_key = service->api_key,
                                      .insecure = f->insecure,
                                      .no_admin = f->no_admin,
                                      .admin_socket = f->admin,
                                      .body_limit = f->body_limit,
                                      .connection_limit = (unsigned)f->connections,
                                      .access_log = {service->log >= 0 ? append_to_log : NULL, service},
                                      .busy_poll_us = (unsigned)f->busy_poll_us,
                                      .tracer = service->tracer,
                                      .tls = service->tls,
                                      .no_page = f->no_page};
    if (xcs_http_create(service->server, &options, &service->http, &error) == XCVM_OK)
        return EXIT_OK;
    return report_address(&error);
}

static int start_grpc(struct service *service)
{
    const struct serve_flags *f = service->flags;
    xcvm_error error = {.pc = -1};
    const xcs_grpc_options options = {.size = sizeof options,
                                      .address = f->grpc,
                                      .socket = systemd_socket(1),
                                      .api_key = service->api_key,
                                      .insecure = f->insecure,
                                      .message_limit = f->body_limit,
                                      .connection_limit = (unsigned)f->connections,
                                      .access_log = {service->log >= 0 ? append_to_log : NULL, service},
                                      .busy_poll_us = (unsigned)f->busy_poll_us,
                                      .tracer = service->tracer,
                                      .tls = service->tls};
    if (f->grpc == NULL || xcs_grpc_create(service->server, &options, &service->grpc, &error) == XCVM_OK)
        return EXIT_OK;
    return report_address(&error);
}

static int start_tracer(struct service *service)
{
    const struct serve_flags *f = service->flags;
    xcvm_error error = {.pc = -1};
    const xcs_tracer_options options = {.size = sizeof options,
                                        .sample_every = (unsigned)f->trace_sample,
                                        .otlp_endpoint = f->otlp_endpoint,
                                        .service_name = f->otlp_service};
    if (xcs_tracer_create(&options, &service->tracer, &error) == XCVM_OK)
        return EXIT_OK;
    return error.status == XCVM_INVALID_ARGUMENT || error.status == XCVM_UNSUPPORTED
               ? report_usage("--otlp-endpoint: %s", error.message)
               : report_error(NULL, &error);
}

static void restrict_files(const struct service *service)
{
    const struct serve_flags *f = service->flags;
    const char *sockets[4] = {NULL};
    size_t count = 0;
    if (strncmp(f->http, "unix:", 5) == 0)
        sockets[count++] = f->http;
    if (f->grpc != NULL && strncmp(f->grpc, "unix:", 5) == 0)
        sockets[count++] = f->grpc;
    if (f->admin != NULL)
        sockets[count++] = f->admin;
    const char *const files[] = {f->tls_cert, f->tls_key, NULL};
    if (!sandbox_restrict_files(service->operands, sockets, files))
        report_line("the kernel has no Landlock, so files are not restricted");
}

static int start(struct service *service)
{
    const xcs_server_options options = {
        .size = sizeof options, .workers = (int)service->flags->workers, .memory_limit = service->flags->memory};
    xcvm_error error = {.pc = -1};
    int code = read_api_key(service);
    if (code == EXIT_OK)
        code = read_certificate(service);
    if (code == EXIT_OK)
        code = open_log(service);
    /* Before threads are created, which inherit the restriction. */
    if (code == EXIT_OK && !service->flags->no_sandbox)
        restrict_files(service);
    if (code == EXIT_OK && xcs_server_create(&options, &service->server, &error) != XCVM_OK)
        code = report_error(NULL, &error);
    if (code == EXIT_OK)
        code = load_models(service, true);
    if (code == EXIT_OK)
        code = start_tracer(service);
    if (code == EXIT_OK)
        code = start_http(service);
    if (code == EXIT_OK)
        code = start_grpc(service);
    if (code == EXIT_OK && !service->flags->no_sandbox && !sandbox_restrict_calls())
        report_line("the kernel has no seccomp, so system calls are not restricted");
    return code;
}

/* ---- Signals ---- */

static void block_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGHUP);
    /* Before threads are created, which inherit the mask. */
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log at the limit of file sizes */
}

/* If it fails, the old certificate stays in use. */
static void reload_certificate(const struct service *service)
{
    xcvm_error error = {.pc = -1};
    if (service->tls == NULL)
        return;
    if (xcs_tls_reload(service->tls, &error) != XCVM_OK)
        (void)report_error(NULL, &error);
    else
        report_line("the certificate was read again");
    report_readers(service->flags->tls_key);
}

/* Serves until SIGTERM or SIGINT. SIGHUP reloads. */
static void serve_until_stopped(struct service *service, const sigset_t *signals)
{
    const uint64_t watchdog_ns = systemd_watchdog_ns();
    const struct timespec period = {.tv_sec = (time_t)(watchdog_ns / 1000000000),
                                    .tv_nsec = (long)(watchdog_ns % 1000000000)};
    for (;;) {
        const int received = watchdog_ns != 0 ? sigtimedwait(signals, NULL, &period) : sigwaitinfo(signals, NULL);
        if (received == SIGTERM || received == SIGINT)
            return;
        if (received == SIGHUP) {
            systemd_notify("STATUS=Reloading");
            report_line("reloading");
            (void)load_models(service, false);
            reload_certificate(service);
            systemd_notify("STATUS=Serving");
        } else if (watchdog_ns != 0) {
            systemd_notify("WATCHDOG=1");
        }
    }
}

static void stop(struct service *service, const sigset_t *signals)
{
    const int64_t ms = service->flags->drain_ms;
    const struct timespec drain = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    systemd_notify("STOPPING=1");
    report_line("draining");
    xcs_http_set_ready(service->http, false);
    if (service->grpc != NULL)
        xcs_grpc_set_ready(service->grpc, false);
    /* A second signal ends the wait. */
    if (ms > 0)
        (void)sigtimedwait(signals, NULL, &drain);
    /* Every request that was sent is answered, so the pool is drained after the connections. */
    xcs_http_destroy(service->http);
    service->http = NULL;
    (void)xcs_server_drain(service->server, 0);
}

static int serve(struct serve_flags *flags, const struct arguments *operands)
{
    struct service service = {.flags = flags, .operands = operands, .log = -1};
    sigset_t signals;
    if (operands->count == 0)
        return report_usage("there is no model. Add a model, a program or a directory");
    block_signals(&signals);
    int code = start(&service);
    if (code == EXIT_OK) {
        if (service.grpc != NULL)
            report_line("serving gRPC at %s", xcs_grpc_address(service.grpc));
        report_line("serving at %s", xcs_http_address(service.http));
        systemd_notify("READY=1\nSTATUS=Serving");
        serve_until_stopped(&service, &signals);
        stop(&service, &signals);
    }
    xcs_grpc_destroy(service.grpc);
    xcs_http_destroy(service.http);
    xcs_tracer_destroy(service.tracer);
    xcs_server_destroy(service.server);
    xcs_tls_destroy(service.tls);
    if (service.log > STDOUT_FILENO)
        close(service.log);
    free(service.api_key);
    return code;
}

static int execute_serve(const void *own, const struct arguments *arguments)
{
    struct serve_flags flags = *(const struct serve_flags *)own;
    struct arguments operands = *arguments;
    struct config config = {0};
    int code = EXIT_OK;
    if (flags.config != NULL)
        code = config_read(flags.config, &command_serve, &flags, &operands, &config);
    if (code == EXIT_OK)
        code = serve(&flags, &operands);
    config_release(&command_serve, &config);
    return code;
}

static const struct example examples[] = {
    {"prog.bin", "serve the model \"prog\" at 127.0.0.1:8000"},
    {"digits=model.onnx --http 127.0.0.1:9000", "compile a model and serve it under the name \"digits\""},
    {"models/ --access-log - --max-batch 8", "serve every model of a directory, with a log"},
    {"prog.bin --grpc 127.0.0.1:8001", "serve gRPC as well"},
    {"prog.bin --http 0.0.0.0:8000 --api-key-file key.txt", "serve other machines"},
    {"prog.bin --http 0.0.0.0:8443 --api-key-file key.txt --tls-cert cert.pem --tls-key key.pem", "serve with TLS"},
    {"models/ --admin admin.sock", "load and unload models at a socket of their own"},
    {"--config serve.conf", "read models and options from a file"},
};

const struct command command_serve = {
    .name = "serve",
    .summary = "serve models over HTTP and gRPC",
    .operands = "[NAME=]MODEL|PROG|DIR...",
    .min_operands = 0,
    .max_operands = 10000,
    .description =
        "Serves models with the Open Inference Protocol (v2, REST, and with --grpc also gRPC), which clients of Triton "
        "and "
        "KServe use. The name of a model is that of its file or directory. A directory has models in the layout of "
        "Triton (NAME/1/model.onnx), "
        "of "
        "KServe (model.onnx in it), or any files that end in .onnx, .bin or .xcvm.\n\n"
        "Ask the server: curl http://127.0.0.1:8000/v2/models/NAME shows inputs and outputs. curl "
        "http://127.0.0.1:8000/v2/models/NAME/infer -d "
        "'{\"inputs\":[{\"name\":\"x\",\"shape\":[2],\"datatype\":\"FP32\","
        "\"data\":[1,2]}]}' runs the model. /metrics is for Prometheus.\n\n"
        "Requests wait in a bounded queue; a full queue answers 429 with Retry-After, and RESOURCE_EXHAUSTED over "
        "gRPC. Requests whose inputs differ in "
        "the "
        "number of rows only run together. A client that closes its connection or cancels its call cancels its "
        "request.\n\n"
        "SIGHUP reads models, directories and the certificate again while requests are served; a model that does not "
        "load keeps its old "
        "version. SIGTERM finishes all requests and ends. Sockets, readiness and watchdog of systemd are used if they "
        "are "
        "in the environment. docs/serving.md has the details.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct serve_flags),
    .run = execute_serve,
};
