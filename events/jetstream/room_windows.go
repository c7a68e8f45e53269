package jetstream

import "golang.org/x/sys/windows"

// roomOn returns the bytes that are free on dir's disk, where that is known.
func roomOn(dir string) (free uint64, known bool) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	err = windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
	return free, err == nil
}
