import ChaparCore
import ChaparQueue

/// The tables of labels (``AudienceLabel``), as the commit loop changes them; used by its thread only, within its
/// transaction.
///
/// Counts are collected in memory and written at the end of a call (``writeCounts()``): a batch of devices has few
/// labels and many devices.
final class LabelTables {
    private var deltas = LabelDeltas()
    /// The devices that the call changes, here or in ``DeviceTables``.
    private(set) var changed = ChangedDevices()
    private let copyLabels: SQLStatement
    private let removeInherited: SQLStatement
    private let removeOfDevice: SQLStatement
    private let saveCount: SQLStatement
    private let dropCount: SQLStatement
    private let deviceNumber: SQLStatement
    private let insertOfDevice: SQLStatement
    private let deleteOfDevice: SQLStatement
    private let insertOfUser: SQLStatement
    private let deleteOfUser: SQLStatement
    private let devicesOfUser: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        func statement(_ sql: String) throws(StoreError) -> SQLStatement { try SQLStatement(connection, sql) }
        copyLabels = try statement(
            """
            INSERT OR IGNORE INTO device_labels (label, device) SELECT label, ?1 FROM user_labels WHERE user = ?2
            RETURNING label
            """
        )
        removeInherited = try statement(
            """
            DELETE FROM device_labels WHERE device = ?1
            AND substr(label, 1, 1) IN (\(AudienceLabel.inherited.map { "'\($0)'" }.joined(separator: ", ")))
            RETURNING label
            """
        )
        removeOfDevice = try statement("DELETE FROM device_labels WHERE device = ?1 RETURNING label")
        saveCount = try statement(
            """
            INSERT INTO label_counts (app, label, devices) VALUES (?1, ?2, ?3)
            ON CONFLICT (app, label) DO UPDATE SET devices = devices + excluded.devices
            """
        )
        dropCount = try statement("DELETE FROM label_counts WHERE app = ?1 AND label = ?2 AND devices <= 0")
        deviceNumber = try statement("SELECT number FROM devices WHERE id = ?1")
        insertOfDevice = try statement("INSERT OR IGNORE INTO device_labels (label, device) VALUES (?1, ?2)")
        deleteOfDevice = try statement("DELETE FROM device_labels WHERE label = ?1 AND device = ?2")
        insertOfUser = try statement("INSERT OR IGNORE INTO user_labels (user, label) VALUES (?1, ?2)")
        deleteOfUser = try statement("DELETE FROM user_labels WHERE user = ?1 AND label = ?2")
        devicesOfUser = try statement("SELECT number FROM devices WHERE user = ?1")
    }

    // MARK: Counts

    /// Adds to the count of a label.
    func count(_ number: Int64, _ label: String, in app: AppName) { deltas.add(number, label, in: app) }

    /// Begins a call without counts and changes: those of a call that failed are not written.
    func begin() {
        forgetCounts()
        changed = ChangedDevices()
    }

    private func forgetCounts() { deltas = LabelDeltas() }

    /// Notes that a device changes.
    func note(_ number: Int64) { changed.note(number) }

    /// Notes that any device may change.
    func noteAll() { changed.isAll = true }

    /// Writes the counts of the call.
    func writeCounts() throws(StoreError) {
        for (app, label, number) in deltas.sorted {
            saveCount.bind(1, app.rawValue)
            saveCount.bind(2, label)
            saveCount.bind(3, number)
            try saveCount.run()
            guard number < 0 else { continue }
            dropCount.bind(1, app.rawValue)
            dropCount.bind(2, label)
            try dropCount.run()
        }
        forgetCounts()
    }

    // MARK: Devices

    /// Gives a device the labels of its user.
    func inherit(_ number: Int64, from user: String, _ app: AppName) throws(StoreError) {
        note(number)
        copyLabels.bind(1, number)
        copyLabels.bind(2, user)
        for label in try labels(copyLabels) { count(1, label, in: app) }
    }

    /// Takes the labels of its user from a device.
    func disinherit(_ number: Int64, _ app: AppName) throws(StoreError) {
        note(number)
        removeInherited.bind(1, number)
        for label in try labels(removeInherited) { count(-1, label, in: app) }
    }

    /// Removes every label of a device.
    func forget(_ number: Int64, _ device: Device) throws(StoreError) {
        note(number)
        removeOfDevice.bind(1, number)
        for label in try labels(removeOfDevice) { count(-1, label, in: device.app) }
    }

    private func labels(_ statement: SQLStatement) throws(StoreError) -> [String] {
        var found: [String] = []
        while try statement.next() { found.append(try statement.text(0)) }
        return found
    }

    // MARK: Changes

    /// Changes labels; returns the subjects that exist.
    func relabel(_ changes: [LabelChange]) throws(StoreError) -> Set<LabelChange.Subject> {
        var known: Set<LabelChange.Subject> = []
        for change in changes {
            switch change.subject {
            case .device(let id):
                deviceNumber.bind(1, id)
                guard let number = try numbers(deviceNumber).first else { continue }
                for label in change.removed { try set(label, of: number, false, AppName(ofDevice: id)) }
                for label in change.added { try set(label, of: number, true, AppName(ofDevice: id)) }
            case .user(let user):
                var taken: [String] = []
                var given: [String] = []
                for label in change.removed where try write(label, of: user, deleteOfUser) { taken.append(label) }
                for label in change.added where try write(label, of: user, insertOfUser) { given.append(label) }
                if !taken.isEmpty || !given.isEmpty {
                    devicesOfUser.bind(1, user)
                    let app = AppName(ofUser: user)
                    for number in try numbers(devicesOfUser) {
                        for label in taken { try set(label, of: number, false, app) }
                        for label in given { try set(label, of: number, true, app) }
                    }
                }
            }
            known.insert(change.subject)
        }
        return known
    }

    private func write(_ label: String, of user: String, _ statement: SQLStatement) throws(StoreError) -> Bool {
        statement.bind(1, user)
        statement.bind(2, label)
        return try statement.run() > 0
    }

    private func set(_ label: String, of number: Int64, _ isThere: Bool, _ app: AppName) throws(StoreError) {
        note(number)
        let statement = isThere ? insertOfDevice : deleteOfDevice
        statement.bind(1, label)
        statement.bind(2, number)
        if try statement.run() > 0 { count(isThere ? 1 : -1, label, in: app) }
    }

    private func numbers(_ statement: SQLStatement) throws(StoreError) -> [Int64] {
        var found: [Int64] = []
        while try statement.next() { found.append(try statement.integer(0)) }
        return found
    }
}
