# Every third-party package, all from Debian; nothing is fetched by the build.
find_package(Threads REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(Boost 1.81 REQUIRED)

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
