# Build options, compiler flags and sanitizers shared by every target.
option(SKIPJACK_BUILD_TESTS "Build the test suite" ${PROJECT_IS_TOP_LEVEL})
option(SKIPJACK_BUILD_BENCHMARKS "Build the micro-benchmarks" OFF)
option(SKIPJACK_WITH_GRPC "Build the gRPC front end and its clients" ON)
set(SKIPJACK_SANITIZE "" CACHE STRING "Sanitizers: empty, 'address,undefined' or 'thread'")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# What is tested is optimised as users get it, and watched for undefined behaviour; the tests themselves need not
# be, and compile in less than half the time. Those that compute references are optimised a little.
# At -O1 g++ 12 sees bounds errors in std::string that are not there.
set(SKIPJACK_TEST_OPTIONS -O0 -fno-sanitize=undefined)
set(SKIPJACK_COMPUTING_TEST_OPTIONS -O1 -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)

# ccache speeds a rebuild up where it is installed; nothing depends on it.
find_program(SKIPJACK_CCACHE ccache)
if(SKIPJACK_CCACHE)
  # Clones in different folders share results; precompiled headers need two of its checks relaxed.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${SKIPJACK_CCACHE})
endif()

# Applied to Skipjack's own targets only (see skipjack_library), never to generated code.
set(SKIPJACK_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in `"text" + std::string` where there are none (GCC bug 105651).
  list(APPEND SKIPJACK_WARNINGS -Wno-restrict)
endif()

if(SKIPJACK_SANITIZE)
  add_compile_options(-fsanitize=${SKIPJACK_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SKIPJACK_SANITIZE})
  if(SKIPJACK_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
