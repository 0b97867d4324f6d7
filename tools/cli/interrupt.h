/* Termination signals, such as Ctrl-C. Without a handler they end the process at once and temporary files are
 * removed (io/cleanup.h). Work that should finish first, such as a training step, catches them. */
#ifndef XCVM_TOOLS_CLI_INTERRUPT_H
#define XCVM_TOOLS_CLI_INTERRUPT_H

/* Calls `stop` at the first SIGINT, SIGTERM or SIGHUP, in the signal handler; a second one ends the process. */
void interrupt_catch(void (*stop)(void));
/* Restores the earlier signal handlers. */
void interrupt_release(void);
/* The exit code after a termination signal: 128 plus its number, or the code of Ctrl-C if another process received
 * the signal. */
int interrupt_code(void);
/* If `code` is that of a signal, ends the process by this signal, so that scripts end too. Otherwise returns
 * `code`. */
int interrupt_end(int code);

#endif
