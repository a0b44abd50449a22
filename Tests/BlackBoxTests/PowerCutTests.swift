import FaultyDisks
import Foundation
import TestSupport
import Testing

@testable import CulpritBlackBox

/// After a power cut a journaling file system keeps all data that was synced.
@Suite(.ownThread, .enabled(if: FaultyDisk.obstacle == nil, "needs root, loop devices and mkfs.ext4"))
struct PowerCutTests {
  @Test func reportsSyncedDataAfterPowerCut() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let directory = disk.path + "/stalls"
    let box = BlackBoxDirectory(path: directory)
    let inside = disk.pathInside + "/stalls"
    let process = try ServiceProcess(besideThis: "blackbox-process", [inside, "latency"], on: disk)
    process.send("stall")
    _ = try #require(process.fact("stalled"))
    var samples: Int {
      let name = (try? box.names([".stall"]))?.first
      return name.flatMap { box.stall($0) }?.recording.stalls.first?.samples.count ?? 0
    }
    while samples < 5 {
      try #require(!process.hasLeft)
      usleep(20_000)
    }
    // Two more flushes write all present data.
    let before = try #require(disk.written).flushes
    while try #require(disk.written).flushes < before + 2 {
      try #require(!process.hasLeft)
      usleep(20_000)
    }
    try disk.pullOut()
    kill(process.process, SIGKILL)
    _ = process.end()
    try disk.mountAgain()
    let name = try #require(try box.names([".run"]).first)
    let text = try String(contentsOfFile: "\(directory)/\(name)", encoding: .utf8)
    let boot = try #require(text.firstMatch(of: /boot .*\n/))
    let anew = try #require(RunRecord(text: text)).checked("boot another")
    try text.replacing(boot.output, with: anew).write(toFile: "\(directory)/\(name)", atomically: true, encoding: .utf8)
    let arguments = [inside, "report", "--text", "--runs", "1"]
    let launch = try ChildProcess(disk.inside([ChildProcess.built("blackbox-process")] + arguments))
    #expect(launch.fact("run")?.hasSuffix(RunVerdict.machineGone.description) == true, "\(launch)")
    #expect(launch.fact("hang")?.hasPrefix("stuck holdUp(_:)") == true, "\(launch)")
  }
}
