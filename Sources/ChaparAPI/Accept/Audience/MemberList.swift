internal import ChaparQueue
internal import ChaparCore

/// The members of a segment from a file: CSV with a heading, or an object a line.
///
/// The first line decides whether the members are devices or users: its heading, or the field of the first object.
struct MemberList: Sendable {
    /// The form of a file.
    enum Form: Sendable {
        case csv, ndjson

        /// Makes the form of a content type without its parameters; nil for any other.
        init?(type: String) {
            switch type {
            case "text/csv": self = .csv
            case "application/x-ndjson", "application/ndjson": self = .ndjson
            default: return nil
            }
        }
    }

    private static let columns = ["device", "user"]

    /// The names, in the order of the file.
    private(set) var names: [String] = []
    /// Whether they are devices.
    private(set) var isOfDevices = true

    /// Reads a file; mistakes name the line in their pointers, from 1 on.
    init(_ bytes: [UInt8], _ form: Form, most: Int, _ issues: inout RequestIssues) {
        var column: Int?
        var isFirst = true
        var number = 0
        for line in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            number += 1
            let content = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
            guard !content.isEmpty else { continue }
            let pointer = "#/lines/\(number)"
            let name: String?
            switch form {
            case .csv:
                guard let fields = Self.fields(content) else {
                    issues.add(pointer, "open_quotation", "A quotation mark of the line is never closed.")
                    if isFirst { return }
                    continue
                }
                if isFirst {
                    isFirst = false
                    column = fields.firstIndex { Self.columns.contains($0) }
                    guard let column else {
                        let detail = "The first line names the columns, of which one is device or user."
                        issues.add(pointer, "heading_missing", detail)
                        return
                    }
                    isOfDevices = fields[column] == "device"
                    continue
                }
                name = column.flatMap { fields.indices.contains($0) ? fields[$0] : nil }
            case .ndjson:
                let object = (try? JSONValue(parsing: Array(content)))?.objectValue
                if isFirst {
                    isFirst = false
                    isOfDevices = object?.contains("device") ?? false
                }
                name = object?[isOfDevices ? "device" : "user"]?.stringValue
            }
            guard names.count < most else {
                issues.add(pointer, "too_many_members", "At most \(most) members; use several calls.")
                return
            }
            guard let name, isName(name) else {
                let kind = isOfDevices ? "device" : "user"
                issues.add(pointer, "bad_id", "The line has no \(kind) that is the name of one.")
                continue
            }
            names.append(name)
        }
        if isFirst { issues.add("#", "empty", "The file is empty.") }
    }

    private func isName(_ name: String) -> Bool {
        if isOfDevices { return Device.isID(name) }
        return (1...Device.maximumNameBytes).contains(name.utf8.count)
            && name.utf8.allSatisfy { $0 >= 32 && $0 != 127 }
    }

    /// Returns the fields of a line, which commas separate; nil when a quotation is never closed.
    ///
    /// A field may be in quotation marks; quotation marks within it are doubled.
    private static func fields(_ line: ArraySlice<UInt8>) -> [String]? {
        var fields: [[UInt8]] = [[]]
        var (isQuoted, wasClosed) = (false, false)
        for byte in line {
            let isMark = byte == UInt8(ascii: "\"")
            switch byte {
            case _ where isMark && wasClosed: fields[fields.count - 1].append(byte)
            case UInt8(ascii: ",") where !isQuoted: fields.append([])
            case _ where !isMark: fields[fields.count - 1].append(byte)
            default: break
            }
            wasClosed = isMark && isQuoted
            if isMark { isQuoted.toggle() }
        }
        guard !isQuoted else { return nil }
        return fields.map { String(decoding: $0, as: UTF8.self).trimming(" \t\u{FEFF}") }
    }
}

extension String {
    fileprivate func trimming(_ blanks: String) -> String {
        var scalars = Substring(self).unicodeScalars
        while let first = scalars.first, blanks.unicodeScalars.contains(first) { scalars.removeFirst() }
        while let last = scalars.last, blanks.unicodeScalars.contains(last) { scalars.removeLast() }
        return String(scalars)
    }
}
