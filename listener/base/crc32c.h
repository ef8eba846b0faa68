/* crc32c.h: CRC-32C (Castagnoli), a checksum. */
#ifndef WSONCE_CRC32C_H
#define WSONCE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from crc, which is 0 or the result for the bytes before. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t len);

#endif
