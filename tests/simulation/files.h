/* files.h: each listener's disk, with the directory of its spool: what the program wrote there, and what a loss of
 * power leaves. */
#ifndef WSONCE_SIM_FILES_H
#define WSONCE_SIM_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At the beginning of a history: empty disks. */
void files_start(void);
/* Ends all faults. */
void files_calm(void);
/* The directory of this listener's spool; lives as long as the program. */
const char *files_directory(int process);
/* True if these bytes are in a file of this listener; if is_synced, only if they would be after a loss of power. */
bool files_have(int process, const char *bytes, size_t len, bool is_synced);
/* Returns until when a fault has kept this listener from writing or syncing. */
int64_t files_disturbed_until(int process);
/* Returns until when it may not have read its disk again, which a fault had kept it from reading. */
int64_t files_unreadable_until(int process);
/* The listener's machine loses power: any bytes that were not synced may be lost. */
void files_lose_power(int process);
/* A listener opens its spool: reads do not fail until it has. */
void files_start_process(bool is_starting);
/* The listener that is being killed stops after this many more changes; the last one may be partial. */
void files_stop_after(int changes);

#endif
