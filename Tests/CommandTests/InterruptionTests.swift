import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@Suite(.ownThread) struct InterruptionTests {
  @TemporaryDirectory private var directory: String
  private let everyday = Data(StallFileWriter.file(of: SampleRecordings.everyday()))

  private func wait(until condition: () -> Bool) {
    while !condition() { usleep(10_000) }
  }

  /// Runs `script` on a separate terminal of 60 columns.
  private func onTerminal(_ script: String, in directory: String) throws -> ChildProcess {
    let whole = "stty cols 60; export TERM=xterm LC_ALL=C.UTF-8; \(script)"
    return try ChildProcess("/usr/bin/script", ["-qfec", whole, "typescript"], directory: directory)
  }

  private func content(_ directory: String) -> [String] {
    (FileManager.default.enumerator(atPath: directory)?.compactMap { $0 as? String } ?? []).sorted()
  }

  /// An environment in which the command sees no support for unnamed files (O_TMPFILE).
  private func namedFilesOnly(_ directory: String) throws -> [String: String] {
    let source = """
      #define _GNU_SOURCE
      #include <dlfcn.h>
      #include <errno.h>
      #include <fcntl.h>
      #include <stdarg.h>
      int open(const char *path, int flags, ...) {
        va_list rest;
        va_start(rest, flags);
        mode_t mode = va_arg(rest, mode_t);
        va_end(rest);
        if ((flags & O_TMPFILE) == O_TMPFILE) {
          errno = EOPNOTSUPP;
          return -1;
        }
        return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(path, flags, mode);
      }
      """
    try source.write(toFile: "\(directory)/named.c", atomically: true, encoding: .utf8)
    let built = try ChildProcess([
      "/usr/bin/gcc", "-shared", "-fPIC", "-o", "\(directory)/named.so", "\(directory)/named.c",
    ])
    try #require(built.status == 0)
    return ["LD_PRELOAD": "\(directory)/named.so"]
  }

  @Test(arguments: [SIGINT, SIGTERM, SIGHUP], [true, false]) func interruptedExportLeavesNoFiles(
    signal: Int32,
    hasUnnamedFiles: Bool
  ) throws {
    let environment = try hasUnnamedFiles ? [:] : namedFilesOnly(directory)
    let place = "\(directory)/out"
    try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
    try Data("kept".utf8).write(to: URL(fileURLWithPath: "\(place)/x.json"))
    let child = try RunningProcess(
      builtProgram("culprit").path,
      ["export", "-fchrome", "-o", "\(place)/x.json"],
      environment: environment
    )
    // The command waits for input, with its output file open.
    wait {
      let links = (3..<12).compactMap {
        try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(child.id)/fd/\($0)")
      }
      return links.contains { $0.hasPrefix(place) && $0 != "\(place)/x.json" }
    }
    #expect(content(place).count == (hasUnnamedFiles ? 1 : 2))
    kill(child.id, signal)
    let (status, hasExited) = child.end()
    #expect(!hasExited && status == signal)
    #expect(content(place) == ["x.json"])
    #expect(try String(contentsOfFile: "\(place)/x.json", encoding: .utf8) == "kept")
    let whole = try ChildProcess(
      builtProgram("culprit").path,
      ["export", "-fchrome", "-o", "\(place)/x.json"],
      environment: environment,
      input: everyday
    )
    #expect(whole.status == 0 && content(place) == ["x.json"], "\(whole)")
    #expect(try String(contentsOfFile: "\(place)/x.json", encoding: .utf8).hasPrefix("{"))
  }

  /// Only SIGKILL leaves files behind, which the next export must remove.
  @Test(arguments: [SIGINT, SIGKILL]) func cleansUpInterruptedRowExport(signal: Int32) throws {
    let words = ["export", "-fjsonl", "-o", "\(directory)/rows"]
    let child = try RunningProcess(builtProgram("culprit").path, words)
    wait { content("\(directory)/rows").count == 1 }
    kill(child.id, signal)
    let (status, hasExited) = child.end()
    #expect(!hasExited && status == signal)
    #expect(content(directory).count == (signal == SIGKILL ? 2 : 0))
    #expect(try culprit(words, input: everyday).status == 0)
    let files = content("\(directory)/rows")
    #expect(files.count == 3 && files.allSatisfy { !$0.hasPrefix(".") }, "\(files)")
  }

  /// With SIGHUP ignored, as under nohup, the signal must not end the command.
  @Test func honorsIgnoredSignals() throws {
    let program = builtProgram("culprit").path
    let child = try RunningProcess("/bin/sh", ["-c", "trap '' HUP; exec \"$0\" top", program])
    wait { (try? String(contentsOfFile: "/proc/\(child.id)/comm", encoding: .utf8)) == "culprit\n" }
    kill(child.id, SIGHUP)
    child.write(everyday)
    child.closeInput()
    #expect(child.rest().hasPrefix("1 stall of 1 kind"))
    let (status, hasExited) = child.end()
    #expect(hasExited && status == 0)
  }

  @Test func waitsForPagerWhenInterrupted() throws {
    try everyday.write(to: URL(fileURLWithPath: "\(directory)/a.stall"))
    let pager = "kill -TERM $PPID; cat >shown; echo ended >>shown"
    for words in ["report a.stall", "top a.stall", "diff a.stall a.stall"] {
      let child = try onTerminal("PAGER='\(pager)' '\(builtProgram("culprit").path)' \(words)", in: directory)
      #expect(child.status == 128 + SIGTERM, "\(child)")
      let shown = try String(contentsOfFile: "\(directory)/shown", encoding: .utf8)
      #expect(shown.hasSuffix("\nended\n") || shown == "ended\n", "\(shown)")
    }
  }

  @Test func showsProgressOnlyOnTerminal() throws {
    try everyday.write(to: URL(fileURLWithPath: "\(directory)/a.stall"))
    let culprit = "'\(builtProgram("culprit").path)'"
    let slow = "(until grep -qa 'reading standard' typescript; do sleep .05; done; cat a.stall)"
    let terminal = try onTerminal("\(slow) | \(culprit) top --no-pager", in: directory)
    #expect(terminal.status == 0)
    let parts = terminal.output.components(separatedBy: "\r\u{1b}[K")
    try #require(parts.count == 2, "\(terminal.output)")
    #expect(parts[0].hasPrefix("\rreading standard input, 0 B, ") && parts[1].hasPrefix("1 stall of 1 kind"))
    // On a dumb terminal, or with --no-progress, a command of more than half a second prints no progress.
    for settings in ["TERM=dumb \(culprit) top --no-pager", "\(culprit) top --no-pager --no-progress"] {
      let silent = try onTerminal("(sleep 1; cat a.stall) | env \(settings)", in: directory)
      #expect(silent.status == 0 && !silent.output.contains("reading"), "\(silent)")
    }
    let piped = try onTerminal("(sleep 1; cat a.stall) | \(culprit) top --no-pager 2>errors", in: directory)
    #expect(piped.status == 0 && !piped.output.contains("reading"))
    #expect(try String(contentsOfFile: "\(directory)/errors", encoding: .utf8).isEmpty)
  }

  @Test func fitsTablesToTerminalWidth() throws {
    try everyday.write(to: URL(fileURLWithPath: "\(directory)/a.stall"))
    let culprit = "'\(builtProgram("culprit").path)'"
    let narrow = try onTerminal("PAGER=cat NO_COLOR=1 \(culprit) top --details a.stall", in: directory)
    #expect(narrow.output.split(whereSeparator: \.isNewline).allSatisfy { $0.count <= 60 }, "\(narrow.output)")
    #expect(narrow.output.contains("\n    Catalog.rebuildIndex(for:) (Catalog.swift:29)\r\n"), "\(narrow.output)")
    let colored = try onTerminal("unset NO_COLOR; PAGER=cat \(culprit) diff --width=200 a.stall a.stall", in: directory)
    #expect(colored.output.contains("\u{1b}[1mCHANGE") && colored.output.contains("1 → 1"), "\(colored.output)")
    let words = ["diff", "--ascii", "\(directory)/a.stall", "\(directory)/a.stall"]
    let plain = try run("culprit", words).out
    #expect(plain.contains("1 -> 1") && plain.utf8.allSatisfy { $0 < 0x80 }, "\(plain)")
    let missing = try onTerminal("\(culprit) report", in: directory)
    #expect(missing.status == 2 && missing.output.contains("missing FILE or DIRECTORY"), "\(missing)")
    let page = try onTerminal("\(culprit) help top", in: directory)
    #expect(page.output.contains("  -b, --by=WHAT            group by culprit"), "\(page.output)")
  }
}
