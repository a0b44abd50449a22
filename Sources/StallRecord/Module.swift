package struct Module: Hashable, Sendable {
  package struct Mapping: Hashable, Sendable {
    package var start: RuntimeAddress
    package var end: RuntimeAddress
    /// The file offset of `start`, in bytes.
    package var fileOffset: UInt64

    package init(start: RuntimeAddress, end: RuntimeAddress, fileOffset: UInt64) {
      self.start = start
      self.end = end
      self.fileOffset = fileOffset
    }
  }

  package var path: String
  package var buildID: [UInt8]
  package var mappings: [Mapping]
  /// The difference between addresses in memory and addresses in the file; `nil` if unknown.
  package var bias: UInt64?
  /// The device and inode of the file in `/proc/self/maps`, which can differ from those of stat(2) and survive renaming
  /// and deletion. Not recorded: `nil` after reading a file.
  package var identity: String?

  package init(path: String, buildID: [UInt8], mappings: [Mapping], bias: UInt64? = nil) {
    self.path = path
    self.buildID = buildID
    self.mappings = mappings
    self.bias = bias
  }

  package static func == (left: Module, right: Module) -> Bool {
    left.path == right.path && left.buildID == right.buildID && left.mappings == right.mappings
      && left.bias == right.bias
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(path)
    hasher.combine(buildID)
    hasher.combine(mappings)
  }

  package var name: String { path.lastComponent }

  package var isFile: Bool { path.hasPrefix("/") }

  package func contains(_ address: RuntimeAddress) -> Bool {
    mappings.contains { $0.start <= address && address < $0.end }
  }

  /// Returns the file offset of the code at `address`; `nil` outside the module's mappings.
  package func fileOffset(of address: RuntimeAddress) -> UInt64? {
    for mapping in mappings where mapping.start <= address && address < mapping.end {
      let (offset, overflow) = (address.value - mapping.start.value).addingReportingOverflow(mapping.fileOffset)
      return overflow ? nil : offset
    }
    return nil
  }
}

extension Module {
  /// Returns the address in the module's symbol table and debug information, without reading the file. If ``bias`` is
  /// unknown, returns the file offset, which is often equal. `nil` outside the module's mappings.
  package func fileAddress(of address: RuntimeAddress) -> FileAddress? {
    guard let offset = fileOffset(of: address) else { return nil }
    return FileAddress(bias.map { address.value &- $0 } ?? offset)
  }
}

/// Finds the module of an address.
package struct ModuleMap: Sendable {
  private struct Entry {
    var start: RuntimeAddress
    var end: RuntimeAddress
    var module: Int
  }

  package let modules: [Module]
  private let entries: [Entry]
  /// The highest end of all entries up to each index, which limits the backward search.
  private let highestEnd: [RuntimeAddress]

  package init(_ modules: [Module]) {
    self.modules = modules
    entries = modules.enumerated()
      .flatMap { index, module in
        module.mappings.map { Entry(start: $0.start, end: $0.end, module: index) }
      }
      .ordered { $0.start < $1.start }
    var highest = RuntimeAddress(0)
    highestEnd = entries.map {
      highest = max(highest, $0.end)
      return highest
    }
  }

  /// Returns the index of the module at `address` in ``modules``; `nil` without a module.
  package func index(at address: RuntimeAddress) -> Int? {
    var found: Int?
    var place = entries.partitioningIndex { $0.start > address } - 1
    while place >= 0, highestEnd[place] > address {
      if address < entries[place].end { found = max(found ?? 0, entries[place].module) }
      place -= 1
    }
    return found
  }
}
