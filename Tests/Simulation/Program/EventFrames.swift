import ChaparCore

/// Cuts a stream of server-sent events into events.
struct EventFrames {
    /// One event of the stream.
    struct Event {
        let number: Int64
        let type: String
        let data: String

        /// Whether it says that the events up to its number are gone.
        var isGap: Bool { type == "gateway.gap" }

        /// The event itself; nil when it is not JSON.
        var json: JSONValue? { try? JSONValue(parsing: Array(data.utf8)) }
    }

    private var pending: [UInt8] = []

    /// The events that bytes complete.
    mutating func append(_ bytes: some Sequence<UInt8>) -> [Event] {
        pending += bytes
        var events: [Event] = []
        while let end = endOfFrame {
            if let event = Self.event(String(decoding: pending[..<end], as: UTF8.self)) { events.append(event) }
            pending.removeSubrange(..<(end + 2))
        }
        return events
    }

    /// Forgets the beginning of a frame whose connection broke.
    mutating func reset() { pending = [] }

    private var endOfFrame: Int? {
        pending.withUnsafeBufferPointer { bytes in
            var index = 0
            while index + 1 < bytes.count {
                if bytes[index] == 10, bytes[index + 1] == 10 { return index }
                index += 1
            }
            return nil
        }
    }

    private static func event(_ frame: String) -> Event? {
        var number: Int64?
        var (type, data) = ("", "")
        for line in frame.split(separator: "\n") {
            if line.hasPrefix("id: ") { number = Int64(line.dropFirst(4)) }
            if line.hasPrefix("data: ") { data = String(line.dropFirst(6)) }
            if line.hasPrefix("event: ") { type = String(line.dropFirst(7)) }
        }
        guard !data.isEmpty else { return nil }
        let event = Event(number: number ?? 0, type: type, data: data)
        // It has no number, since it is no place to come back to.
        if event.isGap, let next = event.json?["next"]?.integerValue {
            return Event(number: Int64(next) - 1, type: type, data: data)
        }
        return number == nil ? nil : event
    }
}
