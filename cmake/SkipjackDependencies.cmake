# Every third-party package, all from Debian; nothing is fetched by the build.
find_package(Threads REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(Boost 1.81 REQUIRED)

# Neither have these a CMake or a Find module.
find_path(LIBURING_INCLUDE_DIR liburing.h REQUIRED)
find_library(LIBURING_LIBRARY uring REQUIRED)
add_library(liburing::liburing UNKNOWN IMPORTED)
set_target_properties(liburing::liburing PROPERTIES
  IMPORTED_LOCATION "${LIBURING_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${LIBURING_INCLUDE_DIR}")
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
add_library(utf8proc::utf8proc UNKNOWN IMPORTED)
set_target_properties(utf8proc::utf8proc PROPERTIES
  IMPORTED_LOCATION ${UTF8PROC_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${UTF8PROC_INCLUDE_DIR})

# AUTO takes the toolkit where it is; ON insists on it.
set(SKIPJACK_CUDA AUTO CACHE STRING "CUDA: AUTO, ON or OFF")
set(SKIPJACK_WITH_CUDA OFF)
if(NOT SKIPJACK_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND TARGET CUDA::cudart_static)
    set(SKIPJACK_WITH_CUDA ON)
  elseif(SKIPJACK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SKIPJACK_CUDA=ON, but no CUDA toolkit was found (is nvcc on PATH?)")
  endif()
endif()
message(STATUS "CUDA: ${SKIPJACK_WITH_CUDA} ${CUDAToolkit_VERSION}")

if(SKIPJACK_WITH_GRPC)
  find_package(Protobuf REQUIRED) # module mode: Debian's CONFIG files lack protoc
  find_package(gRPC CONFIG REQUIRED)
  find_program(SKIPJACK_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
endif()

if(SKIPJACK_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(SKIPJACK_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
