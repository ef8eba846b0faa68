/* pressure.h: who is not to be read from while memory is full. */
#ifndef WSONCE_PRESSURE_H
#define WSONCE_PRESSURE_H

enum pressure {
	PRESSURE_NONE,
	PRESSURE_PRODUCERS, /* they have filled their part of the limits; feeds have the rest */
	PRESSURE_ALL,
};

#endif
