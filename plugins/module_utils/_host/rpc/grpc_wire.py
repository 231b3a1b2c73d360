# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write protobuf messages, and read HPACK header blocks (RFC 7541), as far as a client of
unary calls needs it.

Host side: standard library only, Python 3.6.
"""

import functools

INTERNAL = 13  # the gRPC status code for an answer that makes no sense


class CriError(Exception):
    """A call that failed: a gRPC status code and our own sentence. `said` is the server's, which
    may quote anything.
    """

    def __init__(self, code, message, said=""):
        super(CriError, self).__init__(message)
        self.code = code
        self.message = message
        self.said = said


# --- protobuf: a message is a list of (field number, wire type, value)
# -----------------------------------------------


def encode_fields(fields):
    """Return the bytes of [(number, wire type, value)].

    Wire type 0 is int or bool. 2 is bytes, str, or a list, which is a message itself.
    """
    out = bytearray()
    for number, wire, value in fields:
        out += encode_varint(number << 3 | wire)
        if wire == 0:
            out += encode_varint(int(value) & (2**64 - 1))
            continue
        data = (
            encode_fields(value)
            if isinstance(value, list)
            else value.encode("utf-8")
            if isinstance(value, str)
            else bytes(value)
        )
        out += encode_varint(len(data)) + data
    return bytes(out)


def decode_fields(data):
    """Return [(number, wire type, value)] of a message: ints for the number types, bytes for the
    rest.
    """
    if not isinstance(data, bytes):
        raise CriError(INTERNAL, "the answer has a number where a message belongs")
    fields, at = [], 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _read_varint(data, at)
        elif wire in (1, 2, 5):
            size = {1: 8, 5: 4}.get(wire)
            if size is None:
                size, at = _read_varint(data, at)
            value, at = data[at : at + size], at + size
            if at > len(data):
                raise CriError(INTERNAL, "the answer is cut off inside field %d" % number)
            if wire != 2:
                value = int.from_bytes(value, "little")
        else:
            raise CriError(
                INTERNAL, "the answer has field %d of unknown wire type %d" % (number, wire)
            )
        fields.append((number, wire, value))
    return fields


def list_field_values(fields, number):
    """List the values of one field, in order."""
    return [value for key, _wire, value in fields if key == number]


def get_string_field(fields, number):
    """Return a string field; "" if it is absent."""
    values = list_field_values(fields, number)
    return values[-1].decode("utf-8", "replace") if values and isinstance(values[-1], bytes) else ""


def encode_varint(number):
    """Return a number as protobuf encodes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data, at):
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise CriError(INTERNAL, "the answer is not protobuf: bad number at byte %d" % at)


# --- HPACK: header fields of a response
# ------------------------------------------------------------------------------

# The code is canonical (codes ascend with length, then symbol), so the lengths say it all: one
# letter each, A = 5 bits.
_LENGTHS = (
    "ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHFIBCCCCCCCCCCCCCCCCCCCCCCDCDIOIJBKABABABBBACCBBBABCBAABCC"
    "CCCKGJIXPRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRRSRRSVVPORSRUVVVWWVTUOQVWWVWTQQVVXWWWPTPQRQQSRRUUTTVS"
    "VWVVWWWWWXWWWWWVZ"
)
_STATUSES = {
    8 + index: (":status", value)
    for index, value in enumerate(("200", "204", "206", "304", "400", "404", "500"))
}
_STATIC_FIELDS = 61


@functools.lru_cache(maxsize=1)  # made at the first use: most answers need none
def _build_huffman_codes():
    codes, code, length = {}, 0, 0
    for bits, symbol in sorted(
        (ord(letter) - ord("A") + 5, symbol) for symbol, letter in enumerate(_LENGTHS)
    ):
        code <<= bits - length
        length = bits
        codes[(bits, code)] = symbol
        code += 1
    return codes


def decode_huffman(data):
    """Decode a Huffman-coded string. Invalid codes are left out: a header value must not cost us
    the answer.
    """
    codes = _build_huffman_codes()
    out, bits, code = bytearray(), 0, 0
    for byte in data:
        for shift in range(7, -1, -1):
            code, bits = code << 1 | byte >> shift & 1, bits + 1
            symbol = codes.get((bits, code))
            if symbol is not None and symbol < 256:
                out.append(symbol)
                bits = code = 0
    return bytes(out)


class HeaderTable(object):
    """A decoder for the header blocks of one connection. The static table has only :status: no
    other entry is asked for.
    """

    def __init__(self):
        self.dynamic = []
        self.limit = 4096

    def decode(self, block):
        fields, at = [], 0
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = self._number(block, at, 7)
                fields.append(self._get_entry(index))
            elif first & 0xE0 == 0x20:
                self.limit, at = self._number(block, at, 5)
                self._evict()
            else:
                index, at = self._number(block, at, 6 if first & 0x40 else 4)
                if index:
                    name = self._get_entry(index)[0]
                else:
                    name, at = self._read_string(block, at)
                value, at = self._read_string(block, at)
                fields.append((name, value))
                if first & 0x40:
                    self.dynamic.insert(0, (name, value))
                    self._evict()
        return fields

    def _evict(self):
        while (
            self.dynamic
            and sum(len(name) + len(value) + 32 for name, value in self.dynamic) > self.limit
        ):
            self.dynamic.pop()

    def _get_entry(self, index):
        if index <= _STATIC_FIELDS:
            return _STATUSES.get(index, ("static-%d" % index, ""))
        if index - _STATIC_FIELDS > len(self.dynamic):
            raise CriError(
                INTERNAL, "the answer's headers name entry %d, which was never sent" % index
            )
        return self.dynamic[index - _STATIC_FIELDS - 1]

    @staticmethod
    def _number(block, at, prefix):
        if at >= len(block):
            raise CriError(INTERNAL, "the answer's headers are cut off")
        most = (1 << prefix) - 1
        number = block[at] & most
        at += 1
        if number < most:
            return number, at
        rest, at = _read_varint(block, at)
        return number + rest, at

    def _read_string(self, block, at):
        if at >= len(block):
            raise CriError(INTERNAL, "the answer's headers are cut off")
        coded = block[at] & 0x80
        size, at = self._number(block, at, 7)
        data = block[at : at + size]
        return (decode_huffman(data) if coded else data).decode("latin-1"), at + size
