internal import Foundation
internal import HTTPTypes
package import Hummingbird
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `POST /v1/devices/batch`: creates or replaces up to 1,000 devices in one commit.
///
/// Each element gets its own answer; an invalid one does not stop the others. A batch may be repeated.
package struct DeviceBatchAPI: Sendable {
    /// The most devices of one request.
    static let maximumDevices = 1000

    let state: GatewayState
    let admission: Admission

    /// Creates the endpoint; `admission` limits the memory of bodies that are being read.
    package init(state: GatewayState, admission: Admission) {
        self.state = state
        self.admission = admission
    }

    private enum Field: Int, RequestField {
        case devices
        static let names = ["devices"]
    }

    private struct Item: Sendable {
        var change: DeviceChange
        var app: AppName
        var issues: RequestIssues
    }

    /// Answers a request.
    package func put(_ request: Request, _ scope: RequestScope, _ requestID: String) async throws(Problem) -> Response {
        guard !state.isDraining else { throw .draining }
        try scope.allowParameters(["app"])
        try RequestBodyReader.requireJSON(scope.fields)
        let now = state.time.now
        let reader = DeviceChangeReader(tokens: scope.snapshot.tokens, now: now)
        let body = RequestBodyReader(admission: admission, scope)
        return try await body.withBody(of: request) { (bytes) throws(Problem) in
            let items = try await longWork(bytes: bytes.count) { () throws(Problem) in try read(bytes, reader, scope) }
            var devices: [Device] = []
            for item in items where item.issues.isEmpty {
                if let id = item.change.id { devices.append(item.change.device(id, of: item.app, at: now)) }
            }
            var results: [DevicePut] = []
            do throws(StoreError) {
                if !devices.isEmpty {
                    results = try await state.devices.put(devices, outbox: state.outbox)
                }
            } catch {
                throw Problem(ofDevices: error)
            }
            return answer(items, results, scope, requestID)
        }
    }

    private func read(
        _ body: [UInt8],
        _ reader: DeviceChangeReader,
        _ scope: RequestScope
    ) throws(Problem) -> [Item] {
        var whole = RequestIssues()
        var items: [Item] = []
        var listed = 0
        var count: Int?
        do throws(JSONSyntaxError) {
            try JSONScanner.scan(body) { (scanner) throws(JSONSyntaxError) in
                _ = try scanner.fields(Field.self, &whole, "#") { (scanner, issues, _) throws(JSONSyntaxError) in
                    count = 0
                    try scanner.elements(&issues, "#/devices") { (scanner, _, index) throws(JSONSyntaxError) in
                        count = index + 1
                        guard index < Self.maximumDevices else { return try scanner.skip() }
                        let item = try item(&scanner, index, reader, listed, scope)
                        listed += item.issues.list.count
                        items.append(item)
                    }
                }
            }
        } catch {
            throw .notJSON(error, body)
        }
        if whole.isEmpty, count ?? 0 == 0 {
            whole.add("#/devices", count == nil ? "missing" : "empty", "Send at least one device.")
        }
        if let count, count > Self.maximumDevices {
            whole.add("#/devices", "too_many_devices", "At most \(Self.maximumDevices) devices; there are \(count).")
        }
        guard whole.isEmpty else { throw Problem(whole) }
        return items
    }

    private func item(
        _ scanner: inout JSONScanner,
        _ index: Int,
        _ reader: DeviceChangeReader,
        _ listed: Int,
        _ scope: RequestScope
    ) throws(JSONSyntaxError) -> Item {
        var issues = RequestIssues(in: "devices", at: index, after: listed)
        var change = DeviceChange()
        let mark = scanner.mark
        do throws(JSONSyntaxError) {
            change = try reader.read(&scanner, &issues)
        } catch {
            issues = RequestIssues(in: "devices", at: index, after: listed)
            try scanner.leave(error, from: mark, &issues)
            return Item(change: DeviceChange(), app: .default, issues: issues)
        }
        change.checkRegistration(&issues)
        if change.id == nil, issues.isEmpty { issues.add("#/id", "missing", "The device's id is missing.") }
        if change.id == DeviceFieldRules.reservedID { issues.add("#/id", "bad_id", "The id is reserved.") }
        var app = AppName.default
        do throws(AppChoice.Failure) {
            app = try scope.apps.app(change.app ?? scope.parameter("app"))
        } catch {
            issues.add("#/app", error.code, error.detail)
        }
        return Item(change: change, app: app, issues: issues)
    }

    private func answer(
        _ items: [Item],
        _ results: [DevicePut],
        _ scope: RequestScope,
        _ requestID: String
    ) -> Response {
        let created = results.count { $0.isNew }
        return Response.json(capacity: 64 * items.count + 128) { writer in
            writer.field("created", created)
            writer.field("replaced", results.count - created)
            writer.field("refused", items.count - results.count)
            writer.name("devices")
            writer.beginArray()
            var next = results.startIndex
            for item in items {
                writer.beginObject()
                writer.field("id", item.change.id)
                writer.name("status")
                if item.issues.isEmpty {
                    writer.integer(results[next].isNew ? 201 : 200)
                    next += 1
                } else {
                    writer.integer(422)
                    writer.name("problem")
                    writer.beginObject()
                    Problem(item.issues).write(to: &writer, instance: String(scope.path), requestID: requestID)
                    writer.endObject()
                }
                writer.endObject()
            }
            writer.endArray()
        }
    }
}
