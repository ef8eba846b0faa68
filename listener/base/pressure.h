/* pressure.h: which connections are paused while memory is full. */
#ifndef WSONCE_PRESSURE_H
#define WSONCE_PRESSURE_H

enum pressure {
	PRESSURE_NONE,
	PRESSURE_PRODUCERS, /* producers have filled their share; feeds may use the rest */
	PRESSURE_ALL,
};

#endif
