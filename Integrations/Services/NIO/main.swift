// A SwiftNIO service without a framework. `tools/check-integrations` stalls it and reads its log.

import Culprit
import CulpritLogging
import CulpritNIO
import EchoServer
import Foundation
import Logging
import NIOPosix

var logger = Logger(label: "nio-service")
logger.logLevel = .debug

let group = MultiThreadedEventLoopGroup.singleton
let watchdog = try Watchdog(logger: logger)
try watchdog.watch(group)

let channel = try await startEchoServer(group, watchdog)
signal(SIGTERM, SIG_IGN)
let termination = DispatchSource.makeSignalSource(signal: SIGTERM, queue: .main)
termination.setEventHandler { channel.close(promise: nil) }
termination.resume()
try await channel.closeFuture.get()
watchdog.stop()
