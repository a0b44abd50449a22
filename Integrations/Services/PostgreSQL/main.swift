// An HTTP service with a pool of one PostgreSQL connection. The first argument is the socket.
// `tools/check-integrations` stalls the service and reads its log.

#if PostgreSQL
  import Culprit
  import CulpritLogging
  import CulpritNIO
  import Logging
  import NIOPosix
  import PostgresNIO
  import Servers
  import Stalls
  import Synchronization

  final class DatabasePool: ConnectionPool {
    let client: PostgresClient
    private let logger: Logger
    private let taken = Atomic(false)

    init(socket: String, _ logger: Logger) {
      var configuration = PostgresClient.Configuration(
        unixSocketPath: socket,
        username: "postgres",
        password: nil,
        database: "postgres"
      )
      configuration.options.maximumConnections = 1
      client = PostgresClient(configuration: configuration)
      self.logger = logger
    }

    var isTaken: Bool { taken.load(ordering: .relaxed) }

    func runTheQuery() async throws {
      try await client.withConnection { connection in
        taken.store(true, ordering: .relaxed)
        _ = try await connection.query("SELECT pg_sleep(2)", logger: logger).collect()
      }
    }

    func waitForTheConnection() async throws { _ = try await client.query("SELECT 1").collect() }
  }

  var logger = Logger(label: "postgres-service")
  logger.logLevel = .debug

  let group = MultiThreadedEventLoopGroup.singleton
  let watchdog = try Watchdog(threshold: .milliseconds(1500), logger: logger)
  try watchdog.watch(group)
  try watchdog.watchConcurrency()

  let pool = DatabasePool(socket: CommandLine.arguments[1], logger)
  let connections = Task.detached { await pool.client.run() }
  let channel = try await startHTTPServer(group, watchdog, pool: pool)
  try await waitForTermination(of: channel)
  connections.cancel()
  await connections.value
  watchdog.stop()
#endif
