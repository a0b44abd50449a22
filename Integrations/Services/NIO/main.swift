// A SwiftNIO service without a framework: TCP, or HTTP with the argument `http`. `tools/check-integrations` stalls it and
// reads its log.

import Culprit
import CulpritLogging
import CulpritNIO
import Logging
import NIOPosix
import Servers

var logger = Logger(label: "nio-service")
logger.logLevel = .debug

let group = MultiThreadedEventLoopGroup.singleton
let watchdog = try Watchdog(threshold: .milliseconds(1500), logger: logger)
try watchdog.watch(group)
try watchdog.watchConcurrency()

let isHTTP = CommandLine.arguments.contains("http")
let channel = try await isHTTP ? startHTTPServer(group, watchdog) : startEchoServer(group, watchdog)
try await waitForTermination(of: channel)
watchdog.stop()
