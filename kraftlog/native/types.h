/* Numbers by their size in bits, and how functions are declared that Python calls, and those that are
   a part of their callers: a call would take as long as what most of these do. */

#pragma once

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#define INLINE inline __attribute__((always_inline))
