/// A file that was mapped into the process with code in it: the executable, a shared library, the vDSO.
package struct Module: Hashable, Sendable {
  /// A piece of the module's file in memory.
  package struct Mapping: Hashable, Sendable {
    /// The first address.
    package var start: RuntimeAddress
    /// One past the last address.
    package var end: RuntimeAddress
    /// What part of the file begins at `start`, in bytes from the file's beginning.
    package var fileOffset: UInt64

    /// A mapping of `start..<end` onto the file from `fileOffset` on.
    package init(start: RuntimeAddress, end: RuntimeAddress, fileOffset: UInt64) {
      self.start = start
      self.end = end
      self.fileOffset = fileOffset
    }
  }

  /// The path as the kernel gives it in `/proc/self/maps`; in brackets (`[vdso]`) when there is no file.
  package var path: String
  /// The linker's build-id, empty when the module has none. It tells whether a file is still the one that ran.
  package var buildID: [UInt8]
  /// The executable mappings.
  package var mappings: [Mapping]
  /// By how much the loader moved the module: an address in memory minus that in the file's own terms. `nil` if unknown.
  package var bias: UInt64?
  /// The device and the inode of the file as `/proc/self/maps` has them, which are not always those of stat(2). They stay when the
  /// file is renamed or deleted. Not recorded: `nil` in a recording that was read from a file.
  package var identity: String?

  /// A module of `path` with `buildID`, mapped at `mappings`.
  package init(path: String, buildID: [UInt8], mappings: [Mapping], bias: UInt64? = nil) {
    self.path = path
    self.buildID = buildID
    self.mappings = mappings
    self.bias = bias
  }

  /// Whether two modules have the same path, build-id and place.
  package static func == (left: Module, right: Module) -> Bool {
    left.path == right.path && left.buildID == right.buildID && left.mappings == right.mappings
      && left.bias == right.bias
  }

  /// Hashes what modules are compared by.
  package func hash(into hasher: inout Hasher) {
    hasher.combine(path)
    hasher.combine(buildID)
    hasher.combine(mappings)
  }

  /// The last component of the path.
  package var name: String {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return path }
    return String(path[path.index(after: slash)...])
  }

  /// Whether there is a file behind the module at all.
  package var isFile: Bool { path.hasPrefix("/") }

  /// Whether the module is mapped at `address`.
  package func contains(_ address: RuntimeAddress) -> Bool {
    mappings.contains { $0.start <= address && address < $0.end }
  }

  /// The file offset of the code at `address`, or `nil` when the module is not mapped there.
  package func fileOffset(of address: RuntimeAddress) -> UInt64? {
    for mapping in mappings where mapping.start <= address && address < mapping.end {
      let (offset, overflow) = (address.value - mapping.start.value).addingReportingOverflow(mapping.fileOffset)
      return overflow ? nil : offset
    }
    return nil
  }
}

extension Module {
  /// `address` in the terms of the module's file, without the file: what its symbol table and its debug information speak of.
  /// Where ``bias`` is not known, the offset in the file, which often is the same; `nil` when the module is not mapped there.
  package func fileAddress(of address: RuntimeAddress) -> FileAddress? {
    guard let offset = fileOffset(of: address) else { return nil }
    return FileAddress(bias.map { address.value &- $0 } ?? offset)
  }
}

/// Finds the module that an address is in.
package struct ModuleMap: Sendable {
  private struct Entry {
    var start: RuntimeAddress
    var end: RuntimeAddress
    var module: Int
  }

  /// The modules, in the order they were given.
  package let modules: [Module]
  private let entries: [Entry]
  /// The highest end among the entries up to each place: tells when searching backwards can stop.
  private let highestEnd: [RuntimeAddress]

  /// A map of `modules`. Where several claim the same address, the one given last wins.
  package init(_ modules: [Module]) {
    self.modules = modules
    entries = modules.enumerated()
      .flatMap { index, module in
        module.mappings.map { Entry(start: $0.start, end: $0.end, module: index) }
      }
      .sorted { $0.start < $1.start }
    var highest = RuntimeAddress(0)
    highestEnd = entries.map {
      highest = max(highest, $0.end)
      return highest
    }
  }

  /// The index in ``modules`` of the module at `address`, or `nil`.
  package func index(at address: RuntimeAddress) -> Int? {
    var low = 0
    var high = entries.count
    while low < high {
      let middle = (low + high) / 2
      if entries[middle].start <= address { low = middle + 1 } else { high = middle }
    }
    var found: Int?
    var place = low - 1
    while place >= 0, highestEnd[place] > address {
      if address < entries[place].end { found = max(found ?? 0, entries[place].module) }
      place -= 1
    }
    return found
  }
}
