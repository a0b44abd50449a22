import CCulpritLinux
import Foundation
import Synchronization
import TestWorkloads
import Testing

@testable import Culprit

private let interruptions = Atomic<Int>(0)

@Suite struct StandardErrorTests {
  @Test func writesWholeTextDespiteInterruptions() throws {
    var (action, former) = (sigaction(), sigaction())
    action.__sigaction_handler.sa_handler = { _ in interruptions.add(1, ordering: .releasing) }
    try #require(sigaction(SIGWINCH, &action, &former) == 0)
    defer { sigaction(SIGWINCH, &former, nil) }
    let pipe = Pipe()
    let (writing, reading) = (pipe.fileHandleForWriting, pipe.fileHandleForReading)
    let text = (0..<20_000).map { "line \($0)\n" }.joined()
    let writer = Atomic<Int32>(0)
    let (isOver, isRead) = (Finished(), Finished())
    let received = Mutex<Data?>(nil)
    let other = Thread {
      while !isOver.isSet, writer.load(ordering: .acquiring) == 0 { usleep(1000) }
      for _ in 0..<5 { interrupt(writer.load(ordering: .acquiring), isOver) }
      let found = try? reading.readToEnd()
      received.withLock { $0 = found }
      isRead.set()
    }
    other.start()
    defer { isOver.set() }
    try withOwnDescriptors {
      dup2(writing.fileDescriptor, STDERR_FILENO)
      // Dispatch threads, whose signal mask this thread inherits, block most signals.
      var signals = sigset_t()
      sigemptyset(&signals)
      sigaddset(&signals, SIGWINCH)
      pthread_sigmask(SIG_UNBLOCK, &signals, nil)
      writer.store(clinux_task_self(), ordering: .releasing)
      printToStandardError(text)
      isOver.set()
    }
    // Reading ends when the last writing descriptor is closed.
    try writing.close()
    while !isRead.isSet { usleep(1000) }
    #expect(received.withLock { $0 } == Data(text.utf8))
  }

  /// Interrupts a write of thread `id`. Returns after the signal's handler has run or the text is complete.
  private func interrupt(_ id: Int32, _ isOver: Finished) {
    while !isOver.isSet, !isWriting(id) { usleep(1000) }
    guard !isOver.isSet else { return }
    let before = interruptions.load(ordering: .acquiring)
    workload_signal_thread(id, SIGWINCH)
    while !isOver.isSet, interruptions.load(ordering: .acquiring) == before { usleep(1000) }
  }

  private func isWriting(_ id: Int32) -> Bool {
    let call = (try? String(contentsOfFile: "/proc/self/task/\(id)/syscall", encoding: .utf8)) ?? ""
    return call.split(separator: " ").dropFirst().first == "0x2"
  }
}
