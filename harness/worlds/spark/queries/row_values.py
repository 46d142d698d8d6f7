"""A value of Spark's in JSON: equal values are equal texts on every run, and no two different ones are.

What JSON has itself stands for itself: null, true, numbers, strings, an array, a struct as an object of its fields.
Everything else is an object with one key that begins with `$` and names its kind, so that no string, and nothing of
another kind, is taken for it:

- `{"$float": "NaN"}`, and so the infinities; -0.0 is a number of its own, as a consumer can tell it from 0.0
- `{"$decimal": "1.1"}`, without zeros at the end: the scale is the column's and no part of the value
- `{"$date": ...}`, `{"$time": ...}`, `{"$timestamp": ...}` (an instant, in UTC), `{"$timestamp_ntz": ...}`,
  `{"$interval": ...}` (from days to seconds)
- `{"$binary": ...}` in base64
- `{"$text": ...}` of a text with half a surrogate pair, which no UTF-8 has: its escape as Python's literals have it
- `{"$map": [[key, value], ...]}` in the order of the keys' texts
- `{"$variant": ...}`, within which an object is one
- `{"$udt": ...}` of what a value of the user's own type is stored as
- `{"$geometry": [srid, base64]}`, `{"$geography": [srid, base64]}`
- `{"$struct": {...}}` of a struct that would else be taken for one of these
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row, types
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructType,
    UserDefinedType,
)

from ....core.events import Value
from ....judging.shapes import text_of

if TYPE_CHECKING:
    from pyspark.sql.types import Geography, Geometry, VariantVal

_Canonical = Callable[[Any, DataType | None], Value]


def canonical_row(row: Row, schema: StructType | None = None) -> dict[str, Value]:
    """A row as an object of its columns. Without the schema a timestamp without zone is taken for one that has none.

    Raises ValueError where two columns, or two fields of a struct, have one name, TypeError for what is no value of
    Spark's, OverflowError for an instant before the year 1 in UTC.
    """
    return _fields(row, schema)


def unrecordable(schema: StructType) -> str:
    """Why rows of this schema cannot be recorded, and what to do; empty when they can.

    Names that differ in upper and lower case alone are two names.
    """
    return next(_why_not(schema, ""), "")


def _why_not(kind: DataType, where: str) -> Iterator[str]:
    name = where or "the row"
    match kind:
        case StructType():
            double = _twice(field.name for field in kind.fields)
            if double is not None:
                what = f"struct {where!r} has two fields" if where else "it has two columns"
                yield f"{what} of the name {double!r}; give one of them another name, as with .alias(...)"
            for field in kind.fields:
                yield from _why_not(field.dataType, f"{where}.{field.name}" if where else field.name)
        case ArrayType():
            yield from _why_not(kind.elementType, name)
        case MapType():
            if _has_lists(kind.keyType):
                yield f"{name!r} is a map whose keys hold arrays or maps, which PySpark cannot collect; make them texts"
            yield from _why_not(kind.keyType, name)
            yield from _why_not(kind.valueType, name)
        case _ if isinstance(kind, _INTERVALS):
            yield f"{name!r} is an {kind.simpleString()}, which PySpark cannot collect; cast it to a string"


def _has_lists(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_lists(field.dataType) for field in kind.fields)
    return isinstance(kind, ArrayType | MapType)


def _twice(names: Iterator[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _value(value: Any, kind: DataType | None) -> Value:
    found = _CANONICAL.get(type(value))
    if found is None:
        udt = kind if isinstance(kind, UserDefinedType) else getattr(value, "__UDT__", None)
        if udt is None:
            raise TypeError(f"{value!r} is no value of Spark's")
        return {"$udt": _value(udt.serialize(value), udt.sqlType())}
    if isinstance(kind, UserDefinedType):
        # Of Python's own kinds, too, the user can make one of theirs.
        return {"$udt": _value(kind.serialize(value), kind.sqlType())}
    return found(value, kind)


def _itself(value: Any, kind: DataType | None) -> Value:
    return value


def _text(value: str, kind: DataType | None) -> Value:
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"$text": value.encode("unicode_escape").decode("ascii")}
    return value


def _float(value: float, kind: DataType | None) -> Value:
    if isfinite(value):
        return value
    return {"$float": "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"}


def _decimal(value: Decimal, kind: DataType | None) -> Value:
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return {"$decimal": "0" if text == "-0" else text}


def _datetime(value: datetime, kind: DataType | None) -> Value:
    if value.tzinfo is None and (kind is None or isinstance(kind, _WITHOUT_ZONE)):
        return {"$timestamp_ntz": value.isoformat()}
    # PySpark gives an instant in the time zone of the process, where an hour a year comes twice.
    return {"$timestamp": value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"}


def _date(value: date, kind: DataType | None) -> Value:
    return {"$date": value.isoformat()}


def _time(value: time, kind: DataType | None) -> Value:
    return {"$time": value.isoformat()}


def _interval(value: timedelta, kind: DataType | None) -> Value:
    return {"$interval": str(value)}


def _binary(value: bytes | bytearray, kind: DataType | None) -> Value:
    return {"$binary": b64encode(value).decode()}


def _geometry(value: Geometry, kind: DataType | None) -> Value:
    return {"$geometry": [value.srid, b64encode(value.wkb).decode()]}


def _geography(value: Geography, kind: DataType | None) -> Value:
    return {"$geography": [value.srid, b64encode(value.wkb).decode()]}


def _array(value: list[Any], kind: DataType | None) -> Value:
    element = kind.elementType if isinstance(kind, ArrayType) else None
    return [_value(one, element) for one in value]


def _struct(value: Row, kind: DataType | None) -> Value:
    return _object(_fields(value, kind if isinstance(kind, StructType) else None))


def _fields(row: Row, schema: StructType | None) -> dict[str, Value]:
    names: list[str] = row.__fields__ if len(row) else []
    double = _twice(iter(names))
    if double is not None:
        raise ValueError(f"two columns have the name {double!r}; give one of them another name")
    kinds = [None] * len(names) if schema is None else [field.dataType for field in schema.fields]
    return {name: _value(value, kind) for name, value, kind in zip(names, row, kinds, strict=True)}


def _object(fields: dict[str, Value]) -> Value:
    alone = next(iter(fields)) if len(fields) == 1 else ""
    return {"$struct": fields} if alone.startswith("$") else fields


def _map(value: Mapping[Any, Any], kind: DataType | None) -> Value:
    of_key, of_value = (kind.keyType, kind.valueType) if isinstance(kind, MapType) else (None, None)
    pairs = [[_value(key, of_key), _value(one, of_value)] for key, one in value.items()]
    return {"$map": sorted(pairs, key=text_of)}


def _variant(value: VariantVal, kind: DataType | None) -> Value:
    return {"$variant": _in_variant(value.toPython())}


def _in_variant(value: Any) -> Value:
    if isinstance(value, dict):
        return _object({key: _in_variant(one) for key, one in value.items()})
    return [_in_variant(one) for one in value] if isinstance(value, list) else _value(value, None)


def _known(*names: str) -> tuple[type, ...]:
    """Those of the types that this pyspark knows."""
    return tuple(getattr(types, name) for name in names if hasattr(types, name))


_INTERVALS = _known("YearMonthIntervalType", "CalendarIntervalType")
"""Those that PySpark cannot collect."""
_WITHOUT_ZONE = _known("TimestampNTZType")

_CANONICAL: Mapping[type, _Canonical] = {
    type(None): _itself,
    bool: _itself,
    int: _itself,
    str: _text,
    float: _float,
    Decimal: _decimal,
    datetime: _datetime,
    date: _date,
    time: _time,
    timedelta: _interval,
    bytes: _binary,
    bytearray: _binary,
    list: _array,
    Row: _struct,
    dict: _map,
    **{
        getattr(types, name): canonical
        for name, canonical in (("VariantVal", _variant), ("Geometry", _geometry), ("Geography", _geography))
        if hasattr(types, name)
    },
}
"""Older versions of Spark have not all of them."""
