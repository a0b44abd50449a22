// A gRPC Swift 2 service with texts as messages. `tools/check-integrations` stalls it and reads its log.

#if GRPC
  import Culprit
  import CulpritLogging
  import CulpritNIO
  import Dispatch
  import GRPCCore
  import GRPCNIOTransportHTTP2Posix
  import Logging
  import NIOPosix
  import Servers
  import Stalls

  struct Texts: MessageSerializer, MessageDeserializer {
    func serialize<Bytes: GRPCContiguousBytes>(_ message: String) throws -> Bytes { Bytes(message.utf8) }

    func deserialize<Bytes: GRPCContiguousBytes>(_ bytes: Bytes) throws -> String {
      bytes.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }
  }

  struct StallService: RegistrableRPCService {
    let watchdog: Watchdog

    func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
      for name in requests + ["loop", "metrics"] {
        let method = MethodDescriptor(fullyQualifiedService: "stalls.Stalls", method: name)
        router.registerHandler(forMethod: method, deserializer: Texts(), serializer: Texts()) { _, _ in
          if name == "loop" {
            try await MultiThreadedEventLoopGroup.singleton.any().submit { stallTheLoop() }.get()
          }
          let text = try await watchdog.withRequest(
            label: method.fullyQualifiedMethod,
            threshold: name == "loop" ? .seconds(30) : threshold(of: name)
          ) { try await answer(name, watchdog) }
          return StreamingServerResponse(single: ServerResponse(message: text))
        }
      }
    }
  }

  var logger = Logger(label: "grpc-service")
  logger.logLevel = .debug

  let watchdog = try Watchdog(threshold: .milliseconds(1500), logger: logger)
  try watchdog.watch(MultiThreadedEventLoopGroup.singleton)
  try watchdog.watchConcurrency()

  let server = GRPCServer(
    transport: .http2NIOPosix(address: .ipv4(host: "127.0.0.1", port: 0), transportSecurity: .plaintext),
    services: [StallService(watchdog: watchdog)]
  )
  signal(SIGTERM, SIG_IGN)
  let termination = DispatchSource.makeSignalSource(signal: SIGTERM, queue: .main)
  termination.setEventHandler { server.beginGracefulShutdown() }
  termination.resume()
  async let serving: Void = server.serve()
  printAddress(port: try await server.listeningAddress?.ipv4?.port)
  try await serving
  watchdog.stop()
#endif
