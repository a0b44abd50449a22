import CulpritStallRecord

struct FirefoxMarkers {
  private enum Phase: Int {
    case instant = 0
    case interval = 1
  }

  private var names: [String] = []
  private var begins: [String] = []
  private var ends: [String] = []
  private var phases: [String] = []
  private var data: [String] = []

  mutating func add(_ name: Int, _ begin: String, _ end: String?, _ data: JSONObject) {
    names.append(String(name))
    begins.append(begin)
    ends.append(end ?? "null")
    phases.append(String((end == nil ? Phase.instant : .interval).rawValue))
    self.data.append(data.text)
  }

  var text: String {
    var table = JSONObject()
    table.add("data", array: data)
    table.add("name", array: names)
    table.add("startTime", array: begins)
    table.add("endTime", array: ends)
    table.add("phase", array: phases)
    table.add("category", array: names.map { _ in "0" })
    table.add("length", names.count)
    return table.text
  }

  static var schema: [String] {
    [
      schema(
        "Stall",
        label: "{marker.data.source}: {marker.data.culprit}",
        [
          ("source", "string"), ("culprit", "string"), ("causes", "string"), ("threshold", "duration"),
          ("id", "string"),
        ]
      ),
      schema("Phase", label: "{marker.data.function}", [("function", "string")]),
      schema("Hang", label: "became a hang", []),
    ]
  }

  private static func schema(_ name: String, label: String, _ fields: [(key: String, format: String)]) -> String {
    var schema = JSONObject()
    schema.add("name", name)
    for key in ["tooltipLabel", "tableLabel", "chartLabel"] { schema.add(key, label) }
    schema.add("display", array: ["\"marker-chart\"", "\"marker-table\"", "\"timeline-overview\""])
    schema.add(
      "fields",
      array: fields.map { field in
        var object = JSONObject()
        object.add("key", field.key)
        object.add("label", field.key)
        object.add("format", field.format)
        return object.text
      }
    )
    return schema.text
  }
}
