import CulpritBlackBox
import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct DirectoryReachTests {
  @TemporaryDirectory private var base: String
  private var directory: String { base + "/runs" }

  private func run(_ words: String...) throws -> ChildProcess {
    try ChildProcess(ChildProcess.built("blackbox-process"), words)
  }

  @Test(.needsRoot(to: "call chroot(2)"), arguments: [false, true])
  func directoryStaysAfterChroot(isFiltered: Bool) throws {
    let jail = directory + "-jail"
    try FileManager.default.createDirectory(atPath: jail, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: jail) }
    let ran = try run(directory, "chroot", jail, isFiltered ? "--filtered" : "")
    if ran.status == 77 { try Test.cancel("chroot(2) is not permitted") }
    #expect(ran.hasExited && ran.status == 0, "\(ran)")
    #expect(try FileManager.default.contentsOfDirectory(atPath: jail) == [])
    // If a filter forbids unshare(2), stalls are not saved, but the end of the run is.
    let stalls = try BlackBoxDirectory(path: directory).names([".stall"])
    #expect(stalls.count == (isFiltered ? 0 : 1))
    let names = stalls.compactMap { BlackBoxDirectory(path: directory).stall($0)?.recording.names.values.joined() }
    #expect(isFiltered || names.joined().contains { $0.function == "holdUp(_:)" })
    let launch = try run(directory, "report")
    #expect(launch.facts("run").count == 1 && launch.fact("run")?.hasSuffix(" clean exit") == true, "\(launch)")
  }

  /// Skips 500 invalid files, which another user can create, without starting threads.
  @Test(.needsNamespaces) func skipsForeignFilesWithoutNewThreads() throws {
    _ = try run(directory, "recover")
    for number in 1...500 {
      let path = "\(directory)/culprit-20200101T000000.000Z-\(number).run"
      try Data("theirs".utf8).write(to: URL(fileURLWithPath: path))
    }
    // In a new PID namespace, the newest thread id is the number of threads created.
    let script = "\"$0\" \"$1\" report && echo threads=$(cat /proc/sys/kernel/ns_last_pid)"
    let words = ["--pid", "--fork", "--mount-proc", "sh", "-c", script]
    let service = [ChildProcess.built("blackbox-process"), directory]
    let launch = try ChildProcess("/usr/bin/unshare", words + service, environment: [:])
    #expect(launch.facts("run").count == 1, "\(launch)")
    let threads = try #require(launch.fact("threads").flatMap { Int($0) }, "\(launch)")
    #expect(threads < 100)
  }
}
